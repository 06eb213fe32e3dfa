"""The database as doctor examines it: short statements, each with a deadline of its own.

Every question is a SELECT of ``id`` (what people name the thing by, mostly an instance's ulid) and
``at`` (since when). They lie in the modules beside this one, by what they are about.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import text

from adapter.records.connecting import make_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from adapter.settings import Settings

UNFINISHED: Final = "('pending', 'running', 'waiting', 'paused')"
"""The statuses of instances that have not ended, as SQL: named, so that an index finds them."""

MOST: Final = 10_000
"""Things that one question counts; beyond that it says "at least"."""

CHUNK: Final = 1_000
"""Ulids that one statement is asked for."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that a question found.

    Attributes:
        id: What people name it by.
        at: Since when.
    """

    id: str
    at: datetime


class Examined:
    """A database that is examined; connects anew for each question if it has to.

    Args:
        settings: ``database_url`` must be set.
        seconds: What one statement may take; the server is left a little longer to say so.

    Raises:
        Misconfigured: No database is named, or its URL cannot be read.
    """

    def __init__(self, settings: Settings, seconds: float) -> None:
        self._settings = settings
        self._seconds = seconds
        self._engine = make_database(settings, pool_size=1, max_overflow=1)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection outside a transaction, with the deadline on each statement."""
        with self._engine.connect() as connection:
            own = connection.execution_options(isolation_level="AUTOCOMMIT")
            driven: Any = own.connection.driver_connection
            driven.patience = self._seconds + 1
            own.execute(text(f"SET statement_timeout = {round(self._seconds * 1_000)}"))
            yield own

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction with the deadline on each statement; committed at the end."""
        with self._engine.begin() as connection:
            connection.execute(
                text(f"SET LOCAL statement_timeout = {round(self._seconds * 1_000)}")
            )
            yield connection

    def change(self, *statements: str, **values: Any) -> int:
        """Runs statements in one transaction; how many rows the INSERTs and others have changed."""
        with self.transaction() as connection:
            done = [connection.execute(text(statement), values) for statement in statements]
        return sum(max(one.rowcount, 0) for one in done if not one.returns_rows)

    def rows(self, query: str, **values: Any) -> Sequence[Row[Any]]:
        """The rows of a question."""
        with self.connection() as connection:
            return connection.execute(text(query), values).all()

    def seen(self, query: str, **values: Any) -> list[Seen]:
        """What a question of ``id`` and ``at`` found, oldest first; at most one more than MOST."""
        whole = f"SELECT f.id, f.at FROM ({query}) f ORDER BY f.at, f.id LIMIT {MOST + 1}"
        return [Seen(str(row.id), row.at) for row in self.rows(whole, **values)]

    def of(self, query: str, ulids: Sequence[str], **values: Any) -> Mapping[str, Row[Any]]:
        """The rows of a question about instances, by ulid; asked in bounded parts."""
        found: dict[str, Row[Any]] = {}
        for first in range(0, len(ulids), CHUNK):
            part = list(ulids[first : first + CHUNK])
            found |= {row.ulid: row for row in self.rows(query, ulids=part, **values)}
        return found

    def close(self) -> None:
        """Closes its connections."""
        self._engine.dispose()


def ago(seconds: str = ":patience") -> str:
    """SQL for the moment before which something counts as late."""
    return f"(clock_timestamp() - make_interval(secs => CAST({seconds} AS float8)))"
