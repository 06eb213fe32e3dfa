"""Draws the ids of rows before they are written, one class for each key type.

An append names all its rows in one statement, so their ids are drawn beforehand. Ids handed out
for one instance only grow, whichever process draws them: the caller says which id the instance
saw last (``after``), and gets greater ones. Between instances no order is promised.

Bigint ids come from the table's own identity sequence, a block at a time. UUIDs (RFC 9562,
version 7) and ULIDs are made here: the clock's milliseconds followed by chance, raised by a small
random amount where the clock has not moved on, so that they grow within a process.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from ulid import ULID

from adapter.errors import AlmanacError, Misconfigured

if TYPE_CHECKING:
    from asyncpg import Connection as _Connection
    from asyncpg.pool import PoolConnectionProxy

    from adapter.settings import Settings

    Connection = _Connection[Any] | PoolConnectionProxy[Any]

Key = int | str
Draw = Callable[[], Key]
"""Gives one id after the other, each greater than the one before."""

BLOCK: Final = 1_000
"""Bigint ids that one statement draws; a process that stops loses what is left of them."""


class KeysSpent(AlmanacError):
    """More ids were drawn than were reserved; reserve more and decide again."""

    code = "keys_spent"
    retryable = True


class Keys(Protocol):
    """What draws the ids of one table."""

    async def reserve(
        self, connection: Connection, count: int = 100, *, after: Key | None = None
    ) -> Draw:
        """Sees to it that ids greater than ``after`` are at hand, and returns what draws them.

        Ids that are not drawn are not lost: they go to whoever draws next. Another task that draws
        meanwhile may take of the count, so a caller must be ready for ``KeysSpent``.

        Args:
            connection: Used only when ids have to be fetched.
            count: How many are to be at hand.
            after: The last id that the instance has seen; None for none.

        Raises:
            KeysSpent: By the returned function, when nothing is left.
            Misconfigured: The sequence lies behind the ids in use.
        """
        ...


def keys_for(settings: Settings, table: str) -> Keys:
    """Returns what draws ids for a table, by its name in the settings (``step_runs``).

    One object serves all tasks of one event loop; it is not for several threads.
    """
    if settings.primary_key_type == "bigint":
        return BigintKeys(getattr(settings.tables, table))
    return UuidKeys() if settings.primary_key_type == "uuid" else UlidKeys()


class BigintKeys:
    """Draws from the identity sequence of a table, by blocks.

    Args:
        table: The table's own name.
        block: How many ids one statement fetches.
    """

    def __init__(self, table: str, block: int = BLOCK) -> None:
        self._table = table
        self._block = block
        self._free: list[int] = []
        self._process = os.getpid()

    async def reserve(
        self, connection: Connection, count: int = 100, *, after: Key | None = None
    ) -> Draw:
        """See ``Keys.reserve``."""
        last = after if isinstance(after, int) else 0
        if self._process != os.getpid():
            # A fork holds the same block as its parent.
            self._free, self._process = [], os.getpid()
        while len(self._free) - bisect_right(self._free, last) < count:
            fetched = await self._fetch(connection, max(self._block, count))
            if fetched[-1] <= last:
                raise Misconfigured(
                    f"the sequence of {self._table}.id is at {fetched[-1]}, behind {last}, which "
                    f"is in use. Set it: SELECT setval(pg_get_serial_sequence('{self._table}', "
                    f"'id'), (SELECT max(id) FROM {self._table}))"
                )
            # Ids too low for one instance serve others; a block on, they are let go.
            self._free = sorted([*self._free[-self._block :], *fetched])
        return _Ascending(self._free_after, last)

    async def _fetch(self, connection: Connection, count: int) -> list[int]:
        drawn: list[int] = await connection.fetchval(
            "SELECT array_agg(nextval(s.name)) FROM generate_series(1, $2::int), "
            "(SELECT pg_get_serial_sequence($1, 'id')::regclass AS name OFFSET 0) AS s",
            f'"{self._table}"',
            count,
        )
        return sorted(drawn)

    def _free_after(self, last: int) -> int:
        place = bisect_right(self._free, last)
        if place == len(self._free):
            raise KeysSpent(
                f"no reserved id of {self._table} is left; reserve more and decide again"
            )
        return self._free.pop(place)


class UuidKeys:
    """Makes UUIDs of version 7, as text in the usual form."""

    async def reserve(
        self, connection: Connection, count: int = 100, *, after: Key | None = None
    ) -> Draw:
        """See ``Keys.reserve``; touches no connection, and is never spent."""
        last = 0 if after is None else _uuid_payload(UUID(str(after)))
        return _Growing(_UUIDS, last, lambda payload: str(_uuid_of(payload)))


class UlidKeys:
    """Makes ULIDs: 26 characters."""

    async def reserve(
        self, connection: Connection, count: int = 100, *, after: Key | None = None
    ) -> Draw:
        """See ``Keys.reserve``; touches no connection, and is never spent."""
        last = 0 if after is None else int(ULID.from_str(str(after)))
        return _Growing(_ULIDS, last, _ulid_of)


def new_ulid() -> str:
    """Makes a ULID, greater than all that this process made before; safe from any thread."""
    return _ulid_of(_ULIDS.after(0))


class _Clocked:
    """Numbers that grow: milliseconds, then ``chance`` random bits."""

    def __init__(self, chance: int) -> None:
        self._chance = chance
        self._last = 0
        self._lock = Lock()

    def after(self, last: int) -> int:
        """Makes a number greater than ``last`` and than all made before."""
        milliseconds = time.time_ns() // 1_000_000
        noise = int.from_bytes(os.urandom(self._chance // 8 + 1), "big")
        fresh = (milliseconds << self._chance) | (noise & ((1 << self._chance) - 1))
        step = 1 + (noise & 0xFFFFFFFF)
        with self._lock:
            if fresh <= self._last:
                fresh = self._last + step
            self._last = fresh
        # An id from a clock that runs ahead binds its own instance only, not all others here.
        return fresh if fresh > last else last + step


_UUIDS = _Clocked(74)
_ULIDS = _Clocked(80)


class _Growing:
    def __init__(self, source: _Clocked, last: int, form: Callable[[int], str]) -> None:
        self._source = source
        self._last = last
        self._form = form

    def __call__(self) -> str:
        self._last = self._source.after(self._last)
        return self._form(self._last)


class _Ascending:
    def __init__(self, take: Callable[[int], int], last: int) -> None:
        self._take = take
        self._last = last

    def __call__(self) -> int:
        self._last = self._take(self._last)
        return self._last


def _uuid_of(payload: int) -> UUID:
    """Sets version and variant into 122 bits: 48 of time and 12 of chance, then 62 of chance."""
    upper, lower = payload >> 62, payload & ((1 << 62) - 1)
    return UUID(int=((upper >> 12) << 80) | (7 << 76) | ((upper & 0xFFF) << 64) | (2 << 62) | lower)


def _uuid_payload(value: UUID) -> int:
    number = value.int
    return ((number >> 80) << 74) | (((number >> 64) & 0xFFF) << 62) | (number & ((1 << 62) - 1))


def _ulid_of(number: int) -> str:
    return str(ULID(number.to_bytes(16, "big")))
