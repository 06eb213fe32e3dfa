"""Temporal as a simulation needs it: it drives instances, forgets, repeats, and is away at times.

It does what the driver workflow and the server do between them: one run per instance, the poke
flag cleared before the turn, an activity for each queued step, a task that is given to another
worker when the first one is silent for too long.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from adapter.errors import Unavailable
from adapter.execution.queued import StepDelayed, run_step
from adapter.execution.turn import take_turn

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from adapter.execution.turned import TurnResult
    from adapter.testing.process import Process

TASK_TIMEOUT = 3.0
HEARTBEAT_TIMEOUT = 10.0


@dataclass(slots=True)
class _Run:
    poked: asyncio.Event = field(default_factory=asyncio.Event)
    steps: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class SimulatedEngine:
    """Drives instances on whatever processes live.

    Args:
        chance: The simulation's only source of chance.
        processes: The processes that live now.
    """

    def __init__(self, chance: random.Random, processes: Callable[[], list[Process]]) -> None:
        self._chance = chance
        self._processes = processes
        self._runs: dict[str, _Run] = {}
        self.down = False
        self.doubled = 0.1
        self.lost = 0.1

    async def start(self, ulid: str, labels: Any = None) -> None:
        """See ``Engine.start``."""
        await self.poke(ulid, labels)

    async def poke(self, ulid: str, labels: Any = None) -> None:
        """See ``Engine.poke``: may take its time, and its answer may get lost."""
        del labels
        await asyncio.sleep(self._chance.uniform(0.0, 0.05))
        if self.down:
            raise Unavailable("the engine is down")
        run = self._runs.get(ulid)
        if run is None:
            run = self._runs[ulid] = _Run()
            run.task = asyncio.get_running_loop().create_task(self._drive(ulid, run))
        run.poked.set()
        if self._chance.random() < self.lost:
            raise Unavailable("the engine's answer was lost")

    def wipe(self) -> None:
        """Forgets every run; what processes do at the moment goes on unheard."""
        for run in self._runs.values():
            for task in (run.task, *run.steps.values()):
                if task is not None:
                    task.cancel()
        self._runs.clear()

    async def _drive(self, ulid: str, run: _Run) -> None:
        pause = 0.1
        while True:
            run.poked.clear()
            turned = await self._turn(ulid, run)
            if turned is None:
                await asyncio.sleep(pause)
                pause = min(2 * pause, 10.0)
                continue
            pause = 0.1
            if turned.ended and not run.poked.is_set():
                if self._runs.get(ulid) is run:
                    del self._runs[ulid]
                return
            self._reconcile(ulid, run, turned)
            if turned.more and not turned.stuck:
                await asyncio.sleep(0.001)
                continue
            delay = 1.0 if turned.stuck else turned.delay
            try:
                async with asyncio.timeout(delay):
                    await run.poked.wait()
            except TimeoutError:
                continue

    async def _turn(self, ulid: str, run: _Run) -> TurnResult | None:
        process = await self._somebody()
        known = frozenset(run.steps)
        turn = process.spawn(
            take_turn(process.deps, ulid, process.stopping, activities=True, known=known)
        )
        if self._chance.random() < self.doubled:
            # A task that was given up too early, or delivered twice.
            other = self._chance.choice(self._processes() or [process])
            other.spawn(
                take_turn(other.deps, ulid, other.stopping, activities=True, known=known)
            ).add_done_callback(_unheard)
        await asyncio.wait([turn])
        if turn.cancelled():
            await asyncio.sleep(TASK_TIMEOUT)
            return None
        try:
            turned: TurnResult = turn.result()
        except (OSError, TimeoutError):
            return None
        return turned

    def _reconcile(self, ulid: str, run: _Run, turned: TurnResult) -> None:
        if turned.queued is None:
            return
        wanted = {queued.step for queued in turned.queued}
        for step in wanted - run.steps.keys():
            task = asyncio.get_running_loop().create_task(self._step(ulid, step))
            run.steps[step] = task
            task.add_done_callback(partial(self._over, run, step))

    @staticmethod
    def _over(run: _Run, step: str, _task: object) -> None:
        run.steps.pop(step, None)
        run.poked.set()

    async def _step(self, ulid: str, step: str) -> None:
        """One activity: tried again until somebody has run the step, or found it gone."""
        while True:
            process = await self._somebody()
            task = process.spawn(run_step(process.deps, ulid, step, stopping=process.stopping))
            await asyncio.wait([task])
            if task.cancelled():
                await asyncio.sleep(HEARTBEAT_TIMEOUT)
                continue
            error = task.exception()
            if error is None:
                return
            if isinstance(error, StepDelayed):
                await asyncio.sleep(error.seconds)
            elif isinstance(error, (OSError, TimeoutError)):
                await asyncio.sleep(0.5)
            else:
                raise error

    async def _somebody(self) -> Process:
        while True:
            living = self._processes()
            if living:
                return self._chance.choice(living)
            await asyncio.sleep(0.5)


def _unheard(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
