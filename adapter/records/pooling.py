"""The asynchronous way to the database: an asyncpg pool for turns and the relay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg

from adapter.errors import Misconfigured
from adapter.records.urls import asyncpg_url

if TYPE_CHECKING:
    from adapter.settings import Settings

CONNECT_TIMEOUT = 5.0
COMMAND_TIMEOUT = 30.0
"""Seconds after which a statement is given up; a turn is then repeated."""


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
