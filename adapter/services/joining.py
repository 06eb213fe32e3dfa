"""How a use case joins the caller's transaction."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from adapter.errors import InvalidInput

Joined = Connection | Session
"""What use cases take: an open connection, or a session, whose connection is then used."""

_ASYNC: Final = (
    "call it within run_sync: await connection.run_sync(lambda c: almanac.start(..., connection=c))"
)
_REMEDIES: Final = {
    "AsyncConnection": _ASYNC,
    "AsyncSession": _ASYNC,
    "Engine": "pass a connection of it: with engine.begin() as connection",
}
"""What to do with what is nearly a connection."""


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

    Raises:
        InvalidInput: ``invalid_connection``: it is neither, or was closed.
    """
    given: Any = joined
    if isinstance(given, Session):
        given.flush()
        given = given.connection()
    if not isinstance(given, Connection):
        kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
        raise _unusable(f"not {kind}", remedy=_REMEDIES.get(type(given).__name__))
    if given.closed:
        raise _unusable("and this one was closed")
    return given


def _unusable(why: str, *, remedy: str | None = None) -> InvalidInput:
    details = {} if remedy is None else {"remedy": remedy}
    return InvalidInput(
        f"connection must be an open SQLAlchemy Connection or Session, {why}",
        code="invalid_connection",
        **details,
    )
