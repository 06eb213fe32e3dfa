"""The connection that a turn holds while it works, and lends while it only waits.

Connections are what bounds the turns that work at once, so there may be many more turns whose
handlers wait for something slow than connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from adapter.records.connection import Connection


class Held:
    """A connection of the pool, acquired on entry.

    Args:
        pool: An asyncpg pool.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """The connection; it must not be kept across ``release``."""
        if self._connection is None:
            raise RuntimeError("the turn has lent its connection")
        return self._connection

    async def acquire(self) -> None:
        """Takes a connection; waits until one is free."""
        self._connection = await self._pool.acquire()

    async def release(self) -> None:
        """Gives the connection to others."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._pool.release(connection)

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()
