"""The type of a connection on the hot path, and room in host connections for an append.

The append's text has ``$n`` parameters, as asyncpg and the server take them. A transactional
handler has a SQLAlchemy connection; a *room* runs such a text as a statement of its transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from asyncpg import Connection as _Connection
    from asyncpg.pool import PoolConnectionProxy
    from sqlalchemy import Connection as SyncConnection
    from sqlalchemy.ext.asyncio import AsyncConnection

    Connection = _Connection[Any] | PoolConnectionProxy[Any]
else:
    # asyncpg's classes are generic in their stubs only.
    Connection = Any


class Appending(Protocol):
    """As much of a connection as an append needs that stamps no inbox rows."""

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """Runs a statement and returns its first row, by names; None when there is none."""
        ...


class PsycopgRoom:
    """Room in a SQLAlchemy connection over psycopg.

    Args:
        connection: In a transaction.
    """

    def __init__(self, connection: SyncConnection) -> None:
        raw: Any = connection.connection.driver_connection
        self._raw: psycopg.Connection[Any] = raw

    def fetchrow(self, text: str, *arguments: Any) -> Mapping[str, Any] | None:
        """Runs a statement in the transaction; its first row."""
        with psycopg.RawCursor(self._raw, row_factory=dict_row) as cursor:
            cursor.execute(text.encode(), arguments)
            return cursor.fetchone()

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self._raw.closed


class AsyncpgRoom:
    """Room in a SQLAlchemy connection over asyncpg; belongs to its event loop.

    Args:
        connection: In a transaction.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def fetchrow(self, text: str, *arguments: Any) -> Mapping[str, Any] | None:
        """Runs a statement in the transaction; its first row."""
        # Through SQLAlchemy: its transaction is the one that begins with the first statement.
        result = await self._connection.exec_driver_sql(text, arguments)
        row = result.mappings().first()
        return None if row is None else dict(row)

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self._connection.invalidated or self._connection.closed
