"""The synchronous way to the database: SQLAlchemy over psycopg, with a deadline on everything.

Whatever the URL says wins: ``?connect_timeout=2&options=-c%20statement_timeout%3D5000``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, create_engine, text

from adapter.errors import Misconfigured
from adapter.records.choice import STAMPS_QUERY, SchemaChoice, verify_stamps
from adapter.records.deadlines import limit_waiting
from adapter.records.urls import sqlalchemy_url

if TYPE_CHECKING:
    from adapter.settings import Settings

CONNECT_TIMEOUT = 5
"""Seconds until a server that does not answer counts as unreachable."""

STATEMENT_TIMEOUT = 30
"""Seconds until a statement is given up, waiting for locks included."""

POOL_TIMEOUT = 10
"""Seconds that a thread waits for a connection of the pool."""

_DEFAULTS: dict[str, Any] = {
    "application_name": "almanac",
    "connect_timeout": CONNECT_TIMEOUT,
    # A peer that vanished without a word: libpq waits for hours by itself.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": STATEMENT_TIMEOUT * 1_000,
}


def make_database(
    settings: Settings,
    *,
    pool_size: int = 5,
    max_overflow: int | None = None,
    pool_timeout: float = POOL_TIMEOUT,
) -> Engine:
    """Returns an engine for the settings' database; it connects when it is first used.

    Transactions are READ COMMITTED, which the records need: a statement has to see what others
    committed while it waited.

    Args:
        settings: ``database_url`` must be set.
        pool_size: Connections that are kept.
        max_overflow: How many more are opened under load; by default twice as many.
        pool_timeout: Seconds that a thread waits for one.

    Raises:
        Misconfigured: No database is named, or its URL cannot be read.
    """
    if settings.database_url is None:
        raise Misconfigured("no database is named; set ALMANAC_DATABASE_URL")
    url = sqlalchemy_url(settings.database_url)
    given = {name: str(value) for name, value in url.query.items()}
    arguments = {name: value for name, value in _DEFAULTS.items() if name not in given}
    options = given.get("options", "")
    if "statement_timeout" not in options:
        options = f"{options} -c statement_timeout={STATEMENT_TIMEOUT}s".strip()
        arguments["options"] = options
    database = create_engine(
        url,
        connect_args=arguments,
        isolation_level="READ COMMITTED",
        max_overflow=2 * pool_size if max_overflow is None else max_overflow,
        pool_pre_ping=True,
        pool_size=pool_size,
        pool_timeout=pool_timeout,
    )
    limit_waiting(database, options)
    return database


def verify_choice(database: Engine, settings: Settings) -> None:
    """Checks that a database has Almanac's tables, made with these names and key types.

    Raises:
        Misconfigured: It has none (``not_migrated``), or was made with others.
    """
    with database.connect() as connection:
        stamps = [tuple(row) for row in connection.execute(text(STAMPS_QUERY))]
    if not verify_stamps(stamps, SchemaChoice.of(settings)):
        raise Misconfigured(
            "the database has no Almanac tables yet; run `almanac migrate` first",
            code="not_migrated",
        )
