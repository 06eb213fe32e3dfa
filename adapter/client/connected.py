"""How a client reaches its database: one engine for each process, and its own transactions."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from sqlalchemy.exc import SQLAlchemyError

from adapter.errors import Misconfigured
from adapter.records.connecting import make_database, verify_choice
from adapter.records.nudging import nudge_relays
from adapter.records.workers import count_alive
from adapter.services.faults import database_faults
from adapter.services.joining import connection_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

    from adapter.services.joining import Joined
    from adapter.settings import Settings


class Connected:
    """One database, to which it connects when it is first used; safe to share between threads.

    Args:
        settings: Name the database.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._engine: Engine | None = None
        self._process = 0
        self._closed = False
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Opens a transaction for several calls, each given it as ``connection``.

        It commits at the end of the block; any exception rolls everything back.
        """
        with database_faults(), self._database().begin() as own:
            yield own

    def close(self) -> None:
        """Closes the connections; the object cannot be used afterwards."""
        with self._lock:
            engine, self._engine, self._closed = self._engine, None, True
        if engine is not None:
            engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _joined(self, connection: Joined | None) -> Iterator[Joined]:
        with database_faults():
            if connection is not None:
                yield connection
                return
            with self._database().begin() as own:
                yield own

    @contextmanager
    def _single(self, connection: Joined | None) -> Iterator[Joined]:
        """For what one statement writes: it is its own transaction, in one round trip.

        Afterwards the relays are told to look at once.
        """
        with database_faults():
            if connection is not None:
                yield connection
                return
            with self._database().connect() as own:
                yield own.execution_options(isolation_level="AUTOCOMMIT")
                with suppress(SQLAlchemyError):
                    nudge_relays(own)

    @contextmanager
    def _telling(self, connection: Joined | None) -> Iterator[Joined]:
        """As ``_joined``; after a commit of its own the relays are told to look at once."""
        with self._joined(connection) as joined:
            yield joined
        if connection is None:
            with suppress(SQLAlchemyError), self._database().begin() as own:
                nudge_relays(own)

    @contextmanager
    def _read(self, connection: Joined | None) -> Iterator[Joined]:
        with database_faults():
            if connection is not None:
                yield connection
                return
            with self._database().connect() as own:
                yield self._one_moment(own)

    def _living(self) -> int:
        """How many workers are alive."""
        with self._read(None) as joined:
            return count_alive(connection_of(joined), self.settings)

    @staticmethod
    def _one_moment(connection: Connection) -> Connection:
        return connection.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )

    def _database(self) -> Engine:
        with self._lock:
            if self._closed:
                raise Misconfigured("this Almanac was closed; make another one", code="closed")
            if self._engine is not None and self._process != os.getpid():
                # The sockets are the parent's, which goes on to use them.
                self._engine.dispose(close=False)
                self._engine = None
            if self._engine is None:
                engine = make_database(self.settings)
                try:
                    verify_choice(engine, self.settings)
                except BaseException:
                    engine.dispose()
                    raise
                self._engine, self._process = engine, os.getpid()
            return self._engine

    def _url(self) -> str:
        if self.settings.database_url is None:
            raise Misconfigured("no database is named; set ALMANAC_DATABASE_URL")
        return self.settings.database_url
