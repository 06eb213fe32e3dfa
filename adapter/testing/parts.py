"""The parts of a process that reach the record, over the record in memory and a faulty network.

Each has the interface of the real part of the same name. Every call takes virtual time, in which
others act, and may fail before or after it has taken effect.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from adapter.interpreter.projection import AT
from adapter.records.keys import BigintKeys
from adapter.records.relaying import Claim
from adapter.records.workers import GAP
from adapter.testing import claims, reads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence

    from adapter.graph.compiled import Graph
    from adapter.interpreter.children import Definition, Ended
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.events import StoredEvent
    from adapter.interpreter.projection import Changes
    from adapter.interpreter.state import AcceptFrom, Key, Wait
    from adapter.records.append import Appended
    from adapter.records.load import Loaded
    from adapter.testing.record import MemoryRecord

_T = TypeVar("_T")

BLOCK = 120
"""Ids that a process draws at once."""


class Way(Protocol):
    """How calls reach the record."""

    async def ask(self, operation: Callable[[], _T]) -> _T:
        """Has the record do something."""
        ...

    async def append(self, see: Callable[[], object] | None, commit: Callable[[], _T]) -> _T:
        """Has the record append."""
        ...


class Straight:
    """A way on which nothing takes time or goes wrong."""

    async def ask(self, operation: Callable[[], _T]) -> _T:
        """See ``Way.ask``."""
        return operation()

    async def append(self, see: Callable[[], object] | None, commit: Callable[[], _T]) -> _T:
        """See ``Way.append``."""
        if see is not None:
            see()
        return commit()


class MemoryConnection:
    """Stands for a connection; ``transaction`` and the row lock in it are taken at their word.

    In memory every operation is atomic, so a refused writer that repeats needs no lock to get on.
    """

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction that holds one append."""
        yield

    async def execute(self, *_: Any) -> None:
        """Takes a row lock, which nobody needs here."""


class MemoryPool:
    """Gives out connections, to be awaited or entered, as asyncpg's pool does."""

    def acquire(self) -> _Acquired:
        """A connection."""
        return _Acquired()

    async def release(self, _connection: Any) -> None:
        """Takes a connection back."""


class _Acquired:
    def __init__(self) -> None:
        self._connection = MemoryConnection()

    def __await__(self) -> Any:
        yield from ()
        return self._connection

    async def __aenter__(self) -> MemoryConnection:
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        return


class MemoryParts:
    """Loader, looker, awaited, appender, workers, leases, graphs and progress in one.

    Args:
        record: The rows.
        way: Between this process and them.
    """

    def __init__(self, record: MemoryRecord, way: Way) -> None:
        self._record = record
        self._way = way

    async def load(
        self, _connection: Any, ulid: str, since: int = 0, writer: str | None = None
    ) -> Loaded:
        """See ``Loader.load``."""
        return await self._way.ask(lambda: self._record.load(ulid, since, writer))

    async def append(
        self,
        _connection: Any,
        *,
        instance: Key,
        expected_seq: int,
        entries: Sequence[Entry],
        changes: Changes,
        writer: str,
    ) -> Appended | None:
        """See ``Appender.append``."""
        record, number = self._record, int(instance)
        waiting: list[list[int]] = []
        ends = changes.instance.get("ended_at") is AT

        def see() -> None:
            waiting.append(record.waiting_for(number))

        def commit() -> Appended | None:
            seen = waiting[0] if ends else None
            return record.append(number, expected_seq, entries, changes, writer, seen)

        return await self._way.append(see if ends else None, commit)

    async def outputs(self, _connection: Any, *asked: Any) -> Any:
        """See ``Loader.outputs`` and, with more arguments, ``Awaited.outputs``."""
        if len(asked) == 1:
            return await self._way.ask(lambda: reads.outputs(self._record, asked[0]))
        noted, _scope, limit = asked
        return await self._way.ask(lambda: reads.ended_outputs(self._record, noted, limit))

    async def inputs(self, _connection: Any, steps: frozenset[Key]) -> dict[Key, Any]:
        """See ``Loader.inputs``."""
        return await self._way.ask(lambda: reads.inputs(self._record, steps))

    async def payloads(self, _connection: Any, rows: frozenset[Key]) -> dict[Key, Any]:
        """See ``Loader.payloads``."""
        return await self._way.ask(lambda: reads.payloads(self._record, rows))

    async def look(
        self,
        _connection: Any,
        wait: Wait,
        *,
        accept_from: AcceptFrom,
        consumed: Iterable[Key],
        owner_scope: str,
    ) -> list[StoredEvent]:
        """See ``Looker.look``."""
        del owner_scope
        return await self._way.ask(lambda: reads.look(self._record, wait, accept_from, consumed))

    async def ended(
        self, _connection: Any, ulids: Collection[str], _scope: str
    ) -> dict[str, Ended]:
        """See ``Awaited.ended``."""
        return await self._way.ask(lambda: reads.ended(self._record, ulids))

    async def definitions(
        self, _connection: Any, keys: Collection[str], _scope: str
    ) -> dict[str, Definition | None]:
        """See ``Awaited.definitions``."""
        return await self._way.ask(lambda: reads.definitions(self._record, keys))

    async def get(self, _connection: Any, version: Key) -> Graph:
        """See ``Graphs.get``."""
        return self._record.graphs[int(version)]

    async def gone(self, _connection: Any, workers: Collection[str]) -> frozenset[str]:
        """See ``Workers.gone``."""
        return await self._way.ask(lambda: reads.gone(self._record, workers, GAP))

    async def expired(self, _connection: Any, steps: frozenset[Key]) -> frozenset[Key]:
        """See ``Leases.expired``."""
        return await self._way.ask(lambda: reads.expired(self._record, steps))

    async def rest(self, _connection: Any, step: Key) -> float:
        """See ``Leases.rest``."""
        return await self._way.ask(lambda: reads.rest(self._record, step))

    async def renew(self, _connection: Any, step: Key, token: str, seconds: float) -> bool:
        """See ``Leases.renew``."""
        return await self._way.ask(lambda: reads.renew(self._record, step, token, seconds))

    async def tell(self, *_: Any) -> None:
        """See ``Progress.tell``: nobody looks at progress here."""


class MemoryKeys(BigintKeys):
    """Draws from a sequence in memory, by blocks as from a real one.

    Args:
        sequence: All ids of one table.
        way: Between this process and it.
    """

    def __init__(self, sequence: Iterator[int], way: Way) -> None:
        super().__init__("simulated", BLOCK)
        self._sequence = sequence
        self._way = way

    async def _fetch(self, _connection: Any, count: int) -> list[int]:
        return await self._way.ask(lambda: list(islice(self._sequence, count)))


class MemoryRelaying:
    """See ``Relaying``: claims, marks and sweeps over the record in memory.

    Args:
        record: The rows.
        way: Between this process and them.
    """

    def __init__(self, record: MemoryRecord, way: Way) -> None:
        self._record = record
        self._way = way

    async def peek(self, _connection: Any) -> tuple[bool, bool]:
        """See ``Relaying.peek``; marks nothing, so it need not travel to be true to life."""
        return bool(self._record.unpoked), bool(self._record.unmatched)

    async def claim_starts(self, _connection: Any, limit: int) -> list[Claim]:
        """See ``Relaying.claim_starts``."""
        return await self._claims(lambda: claims.claim(self._record, limit, starts=True))

    async def claim_pokes(self, _connection: Any, limit: int) -> list[Claim]:
        """See ``Relaying.claim_pokes``."""
        return await self._claims(lambda: claims.claim(self._record, limit, starts=False))

    async def claim_again(self, _connection: Any, limit: int) -> list[Claim]:
        """See ``Relaying.claim_again``."""
        return await self._claims(lambda: claims.claim_again(self._record, limit))

    async def release(self, _connection: Any, ulids: Sequence[str]) -> None:
        """See ``Relaying.release``."""
        await self._way.ask(lambda: claims.release(self._record, ulids))

    async def cancelled(self, _connection: Any, ulids: Sequence[str]) -> list[str]:
        """See ``Relaying.cancelled``."""
        return await self._way.ask(lambda: claims.asked_to_cancel(self._record, ulids))

    async def overdue(self, _connection: Any, limit: int, after: str = "") -> list[Claim]:
        """See ``Relaying.overdue``."""
        return await self._claims(lambda: claims.overdue(self._record, limit, after))

    async def sweep(self, _connection: Any, limit: int, after: str = "") -> list[Claim]:
        """See ``Relaying.sweep``."""
        return await self.overdue(_connection, limit, after)

    async def _claims(self, operation: Callable[[], list[str]]) -> list[Claim]:
        ulids = await self._way.ask(operation)
        return [Claim(ulid, "simulated", "*") for ulid in ulids]
