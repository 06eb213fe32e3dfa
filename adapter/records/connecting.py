"""Connections to the database: an asyncpg pool for the hot path, SQLAlchemy over psycopg else."""

from __future__ import annotations

from typing import Any

import asyncpg
from sqlalchemy import Engine, create_engine

from adapter.errors import Misconfigured
from adapter.records.urls import sqlalchemy_url
from adapter.settings import Settings

COMMAND_TIMEOUT = 30.0
"""Seconds after which a statement is given up; a turn is then repeated."""

CONNECT_TIMEOUT = 10


def database_url(settings: Settings) -> str:
    """The database's URL.

    Raises:
        Misconfigured: None is set.
    """
    if settings.database_url is None:
        raise Misconfigured("no database is named; set ALMANAC_DATABASE_URL")
    return settings.database_url


def make_database(settings: Settings) -> Engine:
    """A SQLAlchemy engine for services: READ COMMITTED, every statement with a deadline.

    Raises:
        Misconfigured: No database is named.
    """
    return create_engine(
        sqlalchemy_url(database_url(settings)),
        pool_pre_ping=True,
        isolation_level="READ COMMITTED",
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT,
            "application_name": "almanac",
            "options": f"-c statement_timeout={int(COMMAND_TIMEOUT * 1000)}",
        },
    )


async def make_pool(settings: Settings, size: int) -> Any:
    """A pool of asyncpg connections that autocommit in READ COMMITTED, as appends need it.

    Raises:
        Misconfigured: No database is named.
    """
    return await asyncpg.create_pool(
        database_url(settings),
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
        },
    )


async def _keep(_connection: Any) -> None:
    """Nothing is ever set on these connections, so giving one back costs no round trip."""
