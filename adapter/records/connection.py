"""The type of a connection on the hot path, for annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncpg import Connection as _Connection
    from asyncpg.pool import PoolConnectionProxy

    Connection = _Connection[Any] | PoolConnectionProxy[Any]
else:
    # asyncpg's classes are generic in their stubs only.
    Connection = Any
