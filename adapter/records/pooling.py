"""The asynchronous way to the database: an asyncpg pool for turns and the relay."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from adapter.errors import Misconfigured, Unavailable
from adapter.records.urls import asyncpg_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapter.settings import Settings

CONNECT_TIMEOUT = 5.0
COMMAND_TIMEOUT = 30.0
"""Seconds after which a statement is given up; a turn is then repeated."""


NO_DATABASE = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
"""What is raised while the database cannot be reached or does not answer."""


@contextmanager
def needed() -> Iterator[None]:
    """For what a process cannot begin without.

    Raises:
        Unavailable: ``database_unavailable``: the database cannot be reached.
    """
    try:
        yield
    except NO_DATABASE as error:
        told = f"the database cannot be reached: {type(error).__name__}: {error}"
        raise Unavailable(told, code="database_unavailable") from error


async def make_pool(settings: Settings, size: int) -> Any:
    """A pool of connections that autocommit in READ COMMITTED, as appends need it.

    Raises:
        Misconfigured: No database is named.
        OSError, asyncpg.PostgresError: It cannot be reached.
    """
    if settings.database_url is None:
        raise Misconfigured("no database is named; set ALMANAC_DATABASE_URL")
    return await asyncpg.create_pool(
        asyncpg_url(settings.database_url),
        min_size=1,
        max_size=size,
        timeout=CONNECT_TIMEOUT,
        command_timeout=COMMAND_TIMEOUT,
        statement_cache_size=1_000,
        max_inactive_connection_lifetime=0,
        reset=_keep,
        server_settings={
            "application_name": "almanac",
            "default_transaction_isolation": "read committed",
            # Every statement of this pool finds rows by key: planning it anew never pays.
            "plan_cache_mode": "force_generic_plan",
            # A plan made while a table was tiny would read all of it, and be kept while it grows.
            "enable_seqscan": "off",
        },
    )


async def connect(settings: Settings) -> Any:
    """One connection outside any pool, for listening.

    Raises:
        Misconfigured: No database is named.
        OSError, asyncpg.PostgresError: It cannot be reached.
    """
    if settings.database_url is None:
        raise Misconfigured("no database is named; set ALMANAC_DATABASE_URL")
    return await asyncpg.connect(
        asyncpg_url(settings.database_url),
        timeout=CONNECT_TIMEOUT,
        server_settings={"application_name": "almanac listener"},
    )


async def _keep(_connection: Any) -> None:
    """Nothing is ever set on these connections, so giving one back costs no round trip."""
