"""A world: instances of every kind, workers that die, and what goes wrong around them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from adapter.execution.cache import FoldCache
from adapter.graph.compiled import compile_graph
from adapter.interpreter.state import ENDED
from adapter.testing.engine import SimulatedEngine
from adapter.testing.graphs import BEGINNING, EVENT, SIGNALS, graphs
from adapter.testing.invariants import Invariants
from adapter.testing.parts import MemoryPool, MemoryRelaying
from adapter.testing.process import SETTINGS, Process
from adapter.testing.record import MemoryRecord
from adapter.testing.rules import Broken
from temporal_workflows.relay import AGAIN_INTERVAL, UNWATCHED_INTERVAL, Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adapter.execution.cache import Folded
    from adapter.graph.compiled import Graph
    from adapter.testing.network import Trouble

CHAOS = 25.0
"""Seconds of virtual time in which things go wrong."""

OFTEN = 2.0
"""Faults and doings of callers in a second of it."""

PATIENCE = 900.0
"""Seconds of virtual time after which an instance that could end counts as stuck."""

MOST = 9
"""Instances that callers start."""

LATE = 0.3
"""How often a caller's transaction commits some time after it has drawn its id."""

WATCH_INTERVAL = 0.5
"""Seconds between two looks of a relay: seldom enough that pokes may come late."""

COMMANDS = ("pause", "pause", "resume", "resume", "retry", "retry", "cancel")
JUMPS = (-30.0, -1.0, 1.0, 30.0, 3_600.0)


class CheckedCache(FoldCache):
    """A cache whose contents are compared with the record whenever a turn puts something back.

    Args:
        limit: Instances kept.
        invariants: Know what is right.
    """

    def __init__(self, limit: int, invariants: Invariants) -> None:
        super().__init__(limit)
        self._invariants = invariants

    def put(self, ulid: str, folded: Folded) -> None:
        """See ``FoldCache.put``."""
        self._invariants.live(ulid, folded.state)
        super().put(ulid, folded)


class SimulatedRelay(Relay):
    """The relay over the record in memory; nobody notifies it, so it looks by itself."""

    def __init__(self, process: Process, record: MemoryRecord, engine: Any) -> None:
        async def match() -> int:
            return await process.network.ask(record.match)

        super().__init__(SETTINGS, MemoryPool(), engine, match)
        self._relaying: Any = MemoryRelaying(record, process.network)

    async def run(self) -> None:
        """The lanes that look, claim, match and sweep."""
        async with asyncio.TaskGroup() as lanes:
            lanes.create_task(self._lane("watch", self.watch, WATCH_INTERVAL))
            lanes.create_task(self._lane("starts", self.start_batch, UNWATCHED_INTERVAL))
            lanes.create_task(self._lane("pokes", self.poke_batch, UNWATCHED_INTERVAL))
            lanes.create_task(self._lane("match", self.match_batch, UNWATCHED_INTERVAL))
            lanes.create_task(self._lane("again", self.again_batch, AGAIN_INTERVAL))
            lanes.create_task(self._lane("sweep", self.sweep_batch, self._sweep_interval))


class World:
    """One world.

    Args:
        seed: Decides everything.
        trouble: How often things go wrong.
        log: Told of everything that is written.
    """

    def __init__(self, seed: int, trouble: Trouble, log: Callable[[str], None]) -> None:
        self.counts: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._trouble = trouble
        self._loop = asyncio.get_running_loop()
        self._record = MemoryRecord(self._loop.time, log=log)
        self._invariants = Invariants(self._record, self.counts)
        self._processes: list[Process] = []
        self._all: list[Process] = []
        self._engine = SimulatedEngine(
            self._chance, trouble, self.counts, self._invariants, lambda: self._processes
        )
        self._tokens: Iterator[int] = iter(range(1, 10**9))
        self._leaving: list[asyncio.Task[None]] = []
        self._started = 0
        self._faults: tuple[tuple[int, Callable[[], None]], ...] = (
            (6, self._emit),
            (6, self._signal),
            (4, self._command),
            (3, self._start),
            (2, self._crash),
            (2, self._jump),
            (1, self._leave),
            (2, self._wipe),
            (1, self._stop_engine),
            (1, self._stop_database),
        )

    async def run(self) -> None:
        """Runs to the end of everything.

        Raises:
            Broken: Something did not hold.
        """
        for key, graph in _compiled().items():
            self._record.publish(key, graph)
        for _ in range(self._chance.randint(1, 3)):
            self._hire()
        for _ in range(self._chance.randint(2, 4)):
            self._start()
        weights = [weight for weight, _ in self._faults]
        faults = [fault for _, fault in self._faults]
        until = self._loop.time() + CHAOS
        while self._loop.time() < until:
            await asyncio.sleep(self._chance.expovariate(OFTEN))
            self._chance.choices(faults, weights)[0]()
            self._no_surprise()
        await self._come_to_rest()
        self._no_surprise()
        self._invariants.at_end()

    def _no_surprise(self) -> None:
        surprises = [*self._engine.surprises]
        for process in self._all:
            surprises += process.surprises
        # What an invariant says comes before what followed from it.
        for error in sorted(surprises, key=lambda error: not isinstance(error, Broken)):
            raise error

    # workers

    def _hire(self, *, knows_all: bool = False) -> None:
        chance = self._chance
        cache = CheckedCache(chance.choice([0, 1, 50]), self._invariants)
        process = Process(
            self._token(),
            self._record,
            chance,
            self._trouble,
            self.counts,
            self._token,
            cache,
            self._gone,
            knows_all=knows_all or chance.random() < 0.7,
        )
        process.deps.hand_out = self._engine.hand_out
        self._processes.append(process)
        self._all.append(process)
        process.spawn(SimulatedRelay(process, self._record, self._engine).run())

    def _token(self) -> str:
        return f"{next(self._tokens):026}"

    def _gone(self, process: Process) -> None:
        if process in self._processes:
            self._processes.remove(process)
            self._loop.call_later(self._chance.uniform(0.5, 6.0), self._hire)

    # what goes wrong, and what callers do

    def _crash(self) -> None:
        if self._processes:
            self._chance.choice(self._processes).crash()

    def _leave(self) -> None:
        if self._processes:
            process = self._chance.choice(self._processes)
            self._gone(process)
            self._leaving.append(self._loop.create_task(process.leave()))

    def _jump(self) -> None:
        self.counts["clock jumps"] += 1
        self._record.jump(self._chance.choice(JUMPS))

    def _wipe(self) -> None:
        self.counts["wipes"] += 1
        self._engine.wipe()

    def _stop_engine(self) -> None:
        self.counts["engine stopped"] += 1
        self._engine.stop()
        self._loop.call_later(self._chance.uniform(0.1, 8.0), self._engine.resume)

    def _stop_database(self) -> None:
        self.counts["database stopped"] += 1
        self._trouble.down = True
        self._loop.call_later(self._chance.uniform(0.1, 4.0), self._database_up)

    def _database_up(self) -> None:
        self._trouble.down = False

    def _start(self) -> None:
        if self._started >= MOST:
            return
        self._started += 1
        key = self._chance.choice(list(_compiled()))
        if key == BEGINNING:
            self._record.emit(BEGINNING, {"n": self._chance.randrange(3)})
            return
        known = sorted(self._record.by_ulid)
        others = self._chance.sample(known, min(len(known), 2))
        self.counts[f"{key} started"] += 1
        self._record.start(key, {"n": 1, "others": others})

    def _emit(self) -> None:
        payload = {"n": self._chance.randrange(3)}
        number = next(self._record.numbers)
        self._commit(lambda: self._record.emit(EVENT, payload, number))

    def _signal(self) -> None:
        self._tell("signal", {"name": self._chance.choice(SIGNALS), "payload": {}})

    def _command(self) -> None:
        self._tell(self._chance.choice(COMMANDS), {})

    def _tell(self, kind: str, payload: dict[str, Any]) -> None:
        rows = list(self._record.instances.values())
        going = [row for row in rows if row.status not in ENDED]
        instance = self._chance.choice(going if going and self._chance.random() < 0.8 else rows).id
        number = next(self._record.numbers)
        self._commit(lambda: self._record.tell(instance, kind, payload, number=number))

    def _commit(self, write: Callable[[], object]) -> None:
        """Ids are drawn in the order of the inserts, and seen in that of the commits."""
        if self._chance.random() < LATE:
            self.counts["late commits"] += 1
            self._loop.call_later(self._chance.uniform(0.0, 2.0), write)
        else:
            write()

    # the end

    async def _come_to_rest(self) -> None:
        """Nothing goes wrong any more, and whoever waits gets what it waits for."""
        self._trouble.end()
        self._engine.resume()
        self._hire(knows_all=True)
        until = self._loop.time() + PATIENCE
        rounds = 0
        while not self._rested():
            if self._loop.time() > until:
                self._invariants.at_end()
                raise Broken("nothing happens any more")
            await asyncio.sleep(3.0)
            self._no_surprise()
            rounds += 1
            if rounds % 5 == 0:
                self._give()

    def _give(self) -> None:
        self._record.emit(EVENT, {"n": 0})
        for row in list(self._record.instances.values()):
            if row.status == "paused":
                self._record.tell(row.id, "resume", {})
            if any(wait["status"] == "pending" for wait in row.waits.values()):
                for name in SIGNALS:
                    self._record.tell(row.id, "signal", {"name": name, "payload": {}})

    def _rested(self) -> bool:
        return all(
            row.status in ENDED and not row.unapplied for row in self._record.instances.values()
        )


@lru_cache
def _compiled() -> dict[str, Graph]:
    return {key: compile_graph(document) for key, document in graphs().items()}
