"""Engines for the transactions of handlers: bounded, and committed by nobody but Almanac.

A handler that committed its own transaction would be in it twice when it is run again: the commit
belongs to the end of its step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

from adapter.errors import AlmanacError, Misconfigured
from adapter.records.connecting import STATEMENT_TIMEOUT, make_database
from adapter.records.pooling import CONNECT_TIMEOUT
from adapter.records.urls import asyncpg_url

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from adapter.settings import Settings

POOL_TIMEOUT = 60.0
"""Seconds that a transactional handler waits for a connection; they are not the handler's time."""

IDLE_TIMEOUT = 60
"""Seconds that its transaction may stay without a statement; then the server ends it."""

_ALLOWED = "almanac_commit"


class CommittedByHandler(AlmanacError):
    """A transactional handler tried to commit; its step's end does that."""

    code = "step_failed"


def open_engine(settings: Settings) -> Engine:
    """Makes the engine of plain transactional handlers, over psycopg.

    Raises:
        Misconfigured: No database is named, or its URL cannot be read.
    """
    engine = make_database(
        settings,
        pool_size=settings.worker.transactions,
        max_overflow=0,
        pool_timeout=POOL_TIMEOUT,
    )
    _guard(engine)
    return engine


def open_async_engine(settings: Settings) -> AsyncEngine:
    """Makes the engine of async transactional handlers of one event loop, over asyncpg.

    Raises:
        Misconfigured: No database is named.
    """
    if settings.database_url is None:
        raise Misconfigured("no database is named; set ALMANAC_DATABASE_URL")
    url = asyncpg_url(settings.database_url)

    async def connect() -> Any:
        return await asyncpg.connect(
            url,
            timeout=CONNECT_TIMEOUT,
            server_settings={
                "application_name": "almanac",
                "statement_timeout": f"{STATEMENT_TIMEOUT}s",
            },
        )

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        isolation_level="READ COMMITTED",
        max_overflow=0,
        pool_pre_ping=True,
        pool_size=settings.worker.transactions,
        pool_timeout=POOL_TIMEOUT,
    )
    _guard(engine.sync_engine)
    return engine


def allow_commit(connection: Connection | AsyncConnection) -> None:
    """Lets the next commit of a connection through."""
    connection.info[_ALLOWED] = True


def _guard(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def limit(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}s'")
        cursor.close()
        connection.commit()

    @event.listens_for(engine, "commit")
    def refuse(connection: Connection) -> None:
        if not connection.info.pop(_ALLOWED, False):
            raise CommittedByHandler(
                "a transactional handler does not commit: what it wrote is committed with the end"
                " of its step. Use connection.begin_nested() for what may fail alone"
            )
