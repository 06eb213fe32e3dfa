"""The parts of a process that reach the record, over the record in memory and a faulty network.

Each has the interface of the real part of the same name. Every call takes virtual time, in which
others act, and may fail before or after it has taken effect.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from adapter.records.relaying import Claim
from adapter.records.workers import GAP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Sequence

    from adapter.graph.compiled import Graph
    from adapter.interpreter.children import Definition, Ended
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.events import StoredEvent
    from adapter.interpreter.projection import Changes
    from adapter.interpreter.state import AcceptFrom, Key, Wait
    from adapter.records.append import Appended
    from adapter.records.load import Loaded
    from adapter.testing.network import Network
    from adapter.testing.record import MemoryRecord


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
        network: Between this process and them.
    """

    def __init__(self, record: MemoryRecord, network: Network) -> None:
        self._record = record
        self._network = network

    async def load(
        self, _connection: Any, ulid: str, since: int = 0, writer: str | None = None
    ) -> Loaded:
        """See ``Loader.load``."""
        return await self._network.ask(lambda: self._record.load(ulid, since, writer))

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
        return await self._network.ask(
            lambda: self._record.append(int(instance), expected_seq, entries, changes, writer)
        )

    async def outputs(self, _connection: Any, *asked: Any) -> Any:
        """See ``Loader.outputs`` and, with more arguments, ``Awaited.outputs``."""
        if len(asked) == 1:
            return await self._network.ask(lambda: self._record.outputs(asked[0]))
        noted: Iterable[Ended] = asked[0]
        return await self._network.ask(lambda: self._record.ended_outputs(noted))

    async def inputs(self, _connection: Any, steps: frozenset[Key]) -> dict[Key, Any]:
        """See ``Loader.inputs``."""
        return await self._network.ask(lambda: self._record.inputs(steps))

    async def payloads(self, _connection: Any, rows: frozenset[Key]) -> dict[Key, Any]:
        """See ``Loader.payloads``."""
        return await self._network.ask(lambda: self._record.payloads(rows))

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
        return await self._network.ask(lambda: self._record.look(wait, accept_from, consumed))

    async def ended(
        self, _connection: Any, ulids: Collection[str], _scope: str
    ) -> dict[str, Ended]:
        """See ``Awaited.ended``."""
        return await self._network.ask(lambda: self._record.ended(ulids))

    async def definitions(
        self, _connection: Any, keys: Collection[str], _scope: str
    ) -> dict[str, Definition | None]:
        """See ``Awaited.definitions``."""
        found = {key: self._record.definitions.get(key) for key in keys}
        return await self._network.ask(lambda: found)

    async def get(self, _connection: Any, version: Key) -> Graph:
        """See ``Graphs.get``."""
        return self._record.graphs[int(version)]

    async def gone(self, _connection: Any, workers: Collection[str]) -> frozenset[str]:
        """See ``Workers.gone``."""
        return await self._network.ask(lambda: self._record.gone(workers, GAP))

    async def expired(self, _connection: Any, steps: frozenset[Key]) -> frozenset[Key]:
        """See ``Leases.expired``."""
        return await self._network.ask(lambda: self._record.expired(steps))

    async def rest(self, _connection: Any, step: Key) -> float:
        """See ``Leases.rest``."""
        return await self._network.ask(lambda: self._record.rest(step))

    async def renew(self, _connection: Any, step: Key, token: str, seconds: float) -> bool:
        """See ``Leases.renew``."""
        return await self._network.ask(lambda: self._record.renew(step, token, seconds))

    async def tell(self, *_: Any) -> None:
        """See ``Progress.tell``: nobody looks at progress here."""


class MemoryKeys:
    """Draws numbers that grow over all processes.

    Args:
        record: Whose numbers.
    """

    def __init__(self, record: MemoryRecord) -> None:
        self._record = record

    async def reserve(self, _connection: Any, count: int = 100, *, after: Any = None) -> Self:
        """See ``Keys.reserve``; is never spent."""
        del count, after
        return self

    def __call__(self) -> int:
        """The next number."""
        return next(self._record.numbers)


class MemoryRelaying:
    """See ``Relaying``: claims, marks and sweeps over the record in memory.

    Args:
        record: The rows.
        network: Between this process and them.
    """

    def __init__(self, record: MemoryRecord, network: Network) -> None:
        self._record = record
        self._network = network

    async def claim_starts(self, _connection: Any, limit: int) -> list[Claim]:
        """See ``Relaying.claim_starts``."""
        return await self._network.ask(
            lambda: self._claims(self._record.claim(limit, lambda kind: kind == "start"))
        )

    async def claim_pokes(self, _connection: Any, limit: int) -> list[Claim]:
        """See ``Relaying.claim_pokes``."""
        return await self._network.ask(
            lambda: self._claims(self._record.claim(limit, lambda kind: kind != "start"))
        )

    async def claim_again(self, _connection: Any, limit: int) -> list[Claim]:
        """See ``Relaying.claim_again``."""
        return await self._network.ask(lambda: self._claims(self._record.claim_again(limit)))

    async def release(self, _connection: Any, ulids: Sequence[str]) -> None:
        """See ``Relaying.release``."""
        await self._network.ask(lambda: self._record.release(ulids))

    async def cancelled(self, _connection: Any, ulids: Sequence[str]) -> list[str]:
        """See ``Relaying.cancelled``."""
        return await self._network.ask(lambda: self._record.asked_to_cancel(ulids))

    async def overdue(self, _connection: Any, limit: int, after: str = "") -> list[Claim]:
        """See ``Relaying.overdue``."""
        return await self._network.ask(lambda: self._claims(self._record.overdue(after)[:limit]))

    async def sweep(self, _connection: Any, limit: int, after: str = "") -> list[Claim]:
        """See ``Relaying.sweep``."""
        return await self.overdue(_connection, limit, after)

    @staticmethod
    def _claims(ulids: Iterable[str]) -> list[Claim]:
        return [Claim(ulid, "simulated", "*") for ulid in ulids]
