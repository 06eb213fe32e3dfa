"""A simulation: instances of every kind, workers that die, and what must hold whatever happens.

One seed decides everything: run it again, and the same happens again.

    python -m adapter.testing.simulation --seed 42
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapter.graph.compiled import compile_graph
from adapter.interpreter.state import ENDED
from adapter.testing.engine import SimulatedEngine
from adapter.testing.graphs import EVENT, SIGNALS, graphs
from adapter.testing.invariants import Broken, Invariants
from adapter.testing.loop import VirtualLoop, run
from adapter.testing.network import Trouble
from adapter.testing.parts import MemoryPool, MemoryRelaying
from adapter.testing.process import SETTINGS, Process
from adapter.testing.record import MemoryRecord
from temporal_workflows.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator

CHAOS = 40.0
"""Seconds of virtual time in which things go wrong."""

PATIENCE = 3_600.0
"""Seconds of virtual time after which an instance that could end counts as stuck."""

MOST = 7
"""Instances that callers start."""

COMMANDS = ("pause", "resume", "resume", "retry", "retry", "cancel")


@dataclass(slots=True)
class Outcome:
    """What came of one seed.

    Attributes:
        problem: What did not hold; None if all did.
        counts: What happened, by name.
    """

    seed: int
    problem: str | None = None
    counts: dict[str, int] = field(default_factory=dict)


class _Relay(Relay):
    """The relay over the record in memory; nobody notifies it, so it looks by itself."""

    def __init__(self, process: Process, record: MemoryRecord, engine: SimulatedEngine) -> None:
        async def match() -> int:
            return await process.network.ask(record.match)

        super().__init__(SETTINGS, MemoryPool(), engine, match)
        self._relaying: Any = MemoryRelaying(record, process.network)

    async def run(self) -> None:
        """The lanes that claim, match and sweep."""
        async with asyncio.TaskGroup() as lanes:
            lanes.create_task(self._lane("starts", self.start_batch, 0.5))
            lanes.create_task(self._lane("pokes", self.poke_batch, 0.5))
            lanes.create_task(self._lane("match", self.match_batch, 0.5))
            lanes.create_task(self._lane("again", self.again_batch, 1.0))
            lanes.create_task(self._lane("sweep", self.sweep_batch, 60.0))


class Simulation:
    """One world.

    Args:
        seed: Decides everything.
        trouble: How often things go wrong.
    """

    def __init__(self, seed: int, trouble: Trouble | None = None) -> None:
        self._chance = random.Random(seed)
        self._trouble = trouble or Trouble()
        loop = asyncio.get_running_loop()
        self._record = MemoryRecord(loop.time)
        self._invariants = Invariants(self._record)
        self._processes: list[Process] = []
        self._all: list[Process] = []
        self._engine = SimulatedEngine(self._chance, lambda: list(self._processes))
        self._numbers: Iterator[int] = iter(range(1, 10**9))
        self._ulids: list[str] = []
        self.counts = {"crashes": 0, "wipes": 0, "jumps": 0, "commands": 0}

    async def run(self) -> None:
        """Runs to the end of everything.

        Raises:
            Broken: Something did not hold.
        """
        for key, document in graphs().items():
            self._record.publish(key, compile_graph(document))
        for _ in range(self._chance.randint(1, 3)):
            self._hire()
        for _ in range(self._chance.randint(2, 4)):
            self._start()
        until = asyncio.get_running_loop().time() + CHAOS
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(self._chance.expovariate(1.0))
            self._something_happens()
            self._no_surprise()
        await self._come_to_rest()
        self._no_surprise()
        self._invariants.at_end()

    def _start(self) -> None:
        key = self._chance.choice(list(graphs()))
        self._ulids.append(self._record.start(key, {"n": 1}))

    def _no_surprise(self) -> None:
        for process in self._all:
            for error in process.surprises:
                raise error

    def _hire(self) -> None:
        process = Process(
            self._token(), self._record, self._chance, self._trouble, self._token, self._died
        )
        self._processes.append(process)
        self._all.append(process)
        process.spawn(_Relay(process, self._record, self._engine).run())

    def _token(self) -> str:
        return f"{next(self._numbers):026}"

    def _died(self, process: Process) -> None:
        self.counts["crashes"] += 1
        self._processes.remove(process)
        asyncio.get_running_loop().call_later(self._chance.uniform(0.5, 6.0), self._hire)

    def _something_happens(self) -> None:
        chance = self._chance
        match chance.randrange(12):
            case 10:
                if len(self._ulids) < MOST:
                    self._start()
            case 11:
                if self._processes:
                    chance.choice(self._processes).crash()
            case 0 | 1 | 2:
                self._record.emit(EVENT, {"n": chance.randrange(3)})
            case 3 | 4 | 5:
                self._tell("signal", {"name": chance.choice(SIGNALS), "payload": {}})
            case 6:
                self.counts["commands"] += 1
                self._tell(chance.choice(COMMANDS), {})
            case 7:
                self._engine.wipe()
                self.counts["wipes"] += 1
            case 8:
                self._engine.down = True
                asyncio.get_running_loop().call_later(chance.uniform(0.1, 8.0), self._engine_up)
            case _:
                self._record.ahead += chance.choice([-30.0, -1.0, 1.0, 30.0, 3_600.0])
                self.counts["jumps"] += 1

    def _engine_up(self) -> None:
        self._engine.down = False

    def _tell(self, kind: str, payload: dict[str, Any]) -> None:
        ulid = self._chance.choice(self._ulids)
        self._record.tell(self._record.by_ulid[ulid], kind, payload)

    async def _come_to_rest(self) -> None:
        """Nothing goes wrong any more, and whoever waits gets what it waits for."""
        self._trouble.broken = self._trouble.slow = self._trouble.crash = 0.0
        self._engine.down = False
        self._engine.doubled = self._engine.lost = 0.0
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE
        while not self._rested():
            if loop.time() > until:
                self._invariants.at_end()
                raise Broken("nothing happens any more")
            await asyncio.sleep(15.0)
            self._record.emit(EVENT, {"n": 0})
            for ulid, number in self._record.by_ulid.items():
                columns = self._record.instances[number].columns
                if columns["status"] == "paused":
                    self._record.tell(number, "resume", {})
                if ulid in self._ulids and columns["status"] not in ENDED:
                    for name in SIGNALS:
                        self._record.tell(number, "signal", {"name": name, "payload": {}})

    def _rested(self) -> bool:
        rows = self._record.instances.values()
        return all(row.columns["status"] in ENDED for row in rows) and all(
            row.applied for row in self._record.inbox.values()
        )


def simulate(seed: int, trouble: Trouble | None = None) -> Outcome:
    """Runs the simulation of one seed.

    Args:
        seed: Decides everything.
        trouble: How often things go wrong; the usual by default.
    """
    outcome = Outcome(seed)
    real, chance = time.monotonic, random.getstate()
    # What goes wrong is meant to, thousands of times.
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        # Turns measure their stretch, and what has gone by since a load, by this clock.
        time.monotonic = loop.time
        random.seed(seed)
        simulation = Simulation(seed, trouble)
        try:
            await simulation.run()
        finally:
            outcome.counts = simulation.counts

    try:
        run(main())
    except Exception as error:
        outcome.problem = f"{type(error).__name__}: {error}"
    finally:
        time.monotonic = real
        random.setstate(chance)
        logging.disable(disabled)
    return outcome


def main(arguments: list[str] | None = None) -> int:
    """Runs seeds and prints those that break something."""
    parser = argparse.ArgumentParser(
        prog="python -m adapter.testing.simulation", description=__doc__
    )
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1_000, help="how many seeds")
    chosen = parser.parse_args(arguments)
    first, count = (chosen.seed, 1) if chosen.seed is not None else (chosen.first, chosen.count)
    broken = 0
    began = time.perf_counter()
    for seed in range(first, first + count):
        outcome = simulate(seed)
        if outcome.problem is not None:
            broken += 1
            print(f"seed {seed}: {outcome.problem}", flush=True)
        elif chosen.seed is not None:
            print(f"seed {seed}: all holds; {outcome.counts}")
    seconds = time.perf_counter() - began
    print(f"{count} seeds in {seconds:.1f} s, {broken} of them broke something")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
