"""The one place where a plain libpq URL becomes SQLAlchemy's.

Settings hold what ``psql`` and asyncpg understand. libpq itself takes the URL apart, so that
sockets, several hosts, and passwords with odd characters mean the same to everybody.
"""

from __future__ import annotations

from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL

from adapter.errors import Misconfigured

DRIVER = "postgresql+psycopg"

_LIBPQ_ONLY = frozenset(
    {
        "channel_binding",
        "connect_timeout",
        "gssencmode",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "tcp_user_timeout",
    }
)


def sqlalchemy_url(database_url: str) -> URL:
    """Returns the URL with which SQLAlchemy reaches the same database through psycopg.

    Args:
        database_url: A libpq URL: ``postgresql://user:password@host:5432/name?sslmode=require``.

    Raises:
        Misconfigured: libpq cannot read it. The message leaves the URL out, since it may hold a
            password.
    """
    parts: dict[str, Any] = {}
    try:
        parts = dict(conninfo_to_dict(database_url))
        # libpq itself looks at the port only when it connects.
        readable = all(p.isdigit() or not p for p in str(parts.get("port", "")).split(","))
    except ProgrammingError:
        readable = False
    if not readable:
        raise Misconfigured(
            "the database URL cannot be read; it must look like "
            "postgresql://user:password@host:5432/name, with special characters percent-encoded"
        )
    # Hosts and ports stay in the query, where SQLAlchemy takes them as they are: sockets and
    # lists do not fit its own host and port.
    return URL.create(
        DRIVER,
        username=parts.pop("user", None),
        password=parts.pop("password", None),
        database=parts.pop("dbname", None),
        query={name: str(value) for name, value in parts.items()},
    )


def asyncpg_url(database_url: str) -> str:
    """Returns the URL as asyncpg takes it: without what only libpq knows.

    asyncpg would send such parameters to the server, which refuses them. Its own limits
    (``adapter.records.pooling``) stand in for the time-outs among them.
    """
    base, _, query = database_url.partition("?")
    kept = [pair for pair in query.split("&") if pair.partition("=")[0] not in _LIBPQ_ONLY]
    return f"{base}?{'&'.join(kept)}" if any(kept) else base
