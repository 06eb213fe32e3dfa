"""How a use case joins the caller's transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from adapter.errors import InvalidInput

Joined = Connection | Session
"""What use cases take: an open connection, or a session, whose connection is then used."""


def transaction_of(joined: Joined) -> Connection:
    """Returns the connection of a use case that takes several statements.

    Raises:
        InvalidInput: ``transaction_required``: every statement on it commits by itself.
    """
    connection = connection_of(joined)
    driver: Any = connection.connection.dbapi_connection
    level = str(getattr(driver, "isolation_level", ""))
    if getattr(driver, "autocommit", False) or level.lower() == "autocommit":
        raise InvalidInput(
            "the connection commits each statement by itself; pass one with a transaction",
            code="transaction_required",
        )
    return connection


def connection_of(joined: Joined) -> Connection:
    """Returns the connection itself; pending changes of a session are flushed first.

    The flush keeps the order that the caller wrote down: rows of the host's before ours.
    """
    if isinstance(joined, Session):
        joined.flush()
        return joined.connection()
    return joined
