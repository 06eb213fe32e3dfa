"""How a use case joins the caller's transaction."""

from __future__ import annotations

from sqlalchemy import Connection
from sqlalchemy.orm import Session

Joined = Connection | Session
"""What use cases take: an open connection, or a session, whose connection is then used."""


def connection_of(joined: Joined) -> Connection:
    """Returns the connection itself; pending changes of a session are flushed first.

    The flush keeps the order that the caller wrote down: rows of the host's before ours.
    """
    if isinstance(joined, Session):
        joined.flush()
        return joined.connection()
    return joined
