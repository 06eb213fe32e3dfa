"""Temporal as a simulation needs it: it drives instances, forgets, repeats, and is away at times.

It does what the driver workflow and the server do between them: one run per instance, the poke
flag cleared before the turn, an activity for each queued step, a task that is given to another
worker when the first one is silent for too long.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from adapter.errors import Unavailable
from adapter.execution.queued import StepDelayed, run_step
from adapter.execution.turn import take_turn

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from adapter.execution.turned import TurnResult
    from adapter.testing.invariants import Invariants
    from adapter.testing.network import Trouble
    from adapter.testing.process import Process

TASK_TIMEOUT = 3.0
HEARTBEAT_TIMEOUT = 5.0
LATEST = 3.0
"""Seconds by which a poke may be late."""

RENEWED = 0.02
"""How often an idle run continues as new, and forgets which steps it has begun."""


@dataclass(slots=True)
class _Activity:
    task: asyncio.Task[None]
    doubt: asyncio.Event


@dataclass(slots=True)
class _Run:
    poked: asyncio.Event = field(default_factory=asyncio.Event)
    steps: dict[str, _Activity] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class SimulatedEngine:
    """Drives instances on whatever processes live.

    Args:
        chance: The simulation's only source of chance.
        trouble: How often things go wrong.
        counts: What has happened, by name.
        invariants: Told of pokes, and of instances that are left alone.
        processes: The processes that live now.
    """

    def __init__(
        self,
        chance: random.Random,
        trouble: Trouble,
        counts: Counter[str],
        invariants: Invariants,
        processes: Callable[[], list[Process]],
    ) -> None:
        self._chance = chance
        self._trouble = trouble
        self._counts = counts
        self._invariants = invariants
        self._processes = processes
        self._runs: dict[str, _Run] = {}
        self._alone: dict[str, asyncio.Task[None]] = {}
        self._at_work: Counter[str] = Counter()
        self._met: Counter[str] = Counter()
        self._down = False
        self._up = asyncio.Event()
        self._up.set()
        self.surprises: list[BaseException] = []

    async def start(self, ulid: str, labels: Any = None) -> None:
        """See ``Engine.start``."""
        await self.poke(ulid, labels)

    async def poke(self, ulid: str, labels: Any = None) -> None:
        """See ``Engine.poke``: may take its time, get lost, or come twice; so may its answer."""
        del labels
        chance, trouble, counts = self._chance, self._trouble, self._counts
        await asyncio.sleep(chance.uniform(0.0, 0.05))
        if self._down:
            counts["pokes refused"] += 1
            raise Unavailable("the engine is down")
        counts["pokes"] += 1
        fate = chance.random() / trouble.poke if trouble.poke else 9.0
        later = asyncio.get_running_loop().call_later
        if fate < 1:
            counts["pokes dropped"] += 1
        elif fate < 2:
            counts["pokes delayed"] += 1
            later(chance.uniform(0.1, LATEST), self._look, ulid)
        else:
            self._look(ulid)
            if fate < 3:
                counts["pokes repeated"] += 1
                later(chance.uniform(0.0, LATEST), self._look, ulid)
            elif fate < 4:
                counts["answers to pokes lost"] += 1
                raise Unavailable("the engine's answer was lost")

    async def hand_out(self, ulid: str, step: str, _queue: str) -> bool:
        """See ``HandingOut.hand_out``: its answer may get lost."""
        await asyncio.sleep(self._chance.uniform(0.0, 0.05))
        if self._down:
            return False
        if step not in self._alone:
            self._counts["steps handed out in a turn"] += 1
            task = self._alone[step] = self._spawn(self._stand_alone(ulid, step))
            task.add_done_callback(lambda _: self._alone.pop(step, None))
        return self._chance.random() >= self._trouble.poke

    async def _stand_alone(self, ulid: str, step: str) -> None:
        await self._step(ulid, step, asyncio.Event(), alone=True)
        with suppress(Unavailable):
            await self.poke(ulid)

    def _look(self, ulid: str) -> None:
        if self._down:
            return
        run = self._runs.get(ulid)
        if run is None:
            run = self._runs[ulid] = _Run()
            run.task = self._spawn(self._drive(ulid, run))
        run.poked.set()
        self._invariants.poked(ulid)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(self._noted)
        return task

    def _noted(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.surprises.append(error)

    def stop(self) -> None:
        """Is not there for a while: nobody can reach it, and it gives nothing to do."""
        self._down = True
        self._up.clear()

    def resume(self) -> None:
        """Is there again, with all that it knew."""
        self._down = False
        self._up.set()

    def wipe(self) -> None:
        """Forgets every run; what processes do at the moment goes on unheard."""
        self._counts["runs wiped"] += len(self._runs)
        for run in self._runs.values():
            activities = [activity.task for activity in run.steps.values()]
            for task in (run.task, *activities):
                if task is not None:
                    task.cancel()
        self._runs.clear()
        for task in self._alone.values():
            task.cancel()
        self._alone.clear()

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
                self._invariants.left_alone(ulid, None, alone=False)
                if self._runs.get(ulid) is run:
                    del self._runs[ulid]
                return
            self._reconcile(ulid, run, turned)
            if turned.more and not turned.stuck:
                await asyncio.sleep(0.001)
                continue
            delay = 1.0 if turned.stuck else turned.delay
            if turned.stuck:
                self._counts["turns stuck"] += 1
            elif not run.poked.is_set():
                alone = not run.steps and not self._met[ulid]
                self._invariants.left_alone(ulid, delay, alone=alone)
            if self._trouble.poke and self._chance.random() < RENEWED:
                self._counts["runs continued as new"] += 1
                # Its activities go on, and nobody hears of their ends.
                run.steps.clear()
                continue
            try:
                async with asyncio.timeout(delay):
                    await run.poked.wait()
            except TimeoutError:
                continue

    async def _turn(self, ulid: str, run: _Run) -> TurnResult | None:
        process = await self._somebody()
        known = frozenset(run.steps)

        def task(one: Process) -> asyncio.Task[Any]:
            turn = one.work(take_turn(one.deps, ulid, one.stopping, activities=True, known=known))
            self._met[ulid] = self._at_work[ulid]
            self._at_work[ulid] += 1
            turn.add_done_callback(lambda _: self._at_work.subtract([ulid]))
            return turn

        turn = task(process)
        if self._chance.random() < self._trouble.doubled:
            # A task that was given up too early, or delivered twice.
            self._counts["turns doubled"] += 1
            task(self._chance.choice(self._processes() or [process])).add_done_callback(_unheard)
        await asyncio.wait([turn])
        if turn.cancelled():
            await asyncio.sleep(TASK_TIMEOUT)
            return None
        if self._down:
            # Nobody took the answer.
            _unheard(turn)
            await self._up.wait()
            return None
        try:
            turned: TurnResult = turn.result()
        except (OSError, TimeoutError):
            return None
        return turned

    def _reconcile(self, ulid: str, run: _Run, turned: TurnResult) -> None:
        if turned.queued is None:
            return
        wanted = {queued.step: None for queued in turned.queued}
        for step, activity in run.steps.items():
            if step not in wanted:
                activity.doubt.set()
        for step in wanted:
            if step in run.steps:
                continue
            doubt = asyncio.Event()
            task = self._spawn(self._step(ulid, step, doubt))
            run.steps[step] = _Activity(task, doubt)
            task.add_done_callback(partial(self._over, run, step))

    @staticmethod
    def _over(run: _Run, step: str, task: object) -> None:
        activity = run.steps.get(step)
        if activity is not None and activity.task is task:
            del run.steps[step]
            run.poked.set()

    async def _step(
        self, ulid: str, step: str, doubt: asyncio.Event, *, alone: bool = False
    ) -> None:
        """One activity: tried again until somebody has run the step, or found it gone."""

        def task(one: Process) -> asyncio.Task[Any]:
            return one.work(
                run_step(one.deps, ulid, step, doubt=doubt, stopping=one.stopping, alone=alone)
            )

        while True:
            process = await self._somebody()
            running = task(process)
            if self._chance.random() < self._trouble.doubled:
                # Its heartbeats got lost, so that another worker gets it too.
                self._counts["activities doubled"] += 1
                await asyncio.sleep(self._chance.uniform(0.0, HEARTBEAT_TIMEOUT))
                other = self._chance.choice(self._processes() or [process])
                task(other).add_done_callback(_unheard)
            await asyncio.wait([running])
            if running.cancelled():
                await asyncio.sleep(HEARTBEAT_TIMEOUT)
                continue
            error = running.exception()
            if error is None:
                return
            if isinstance(error, StepDelayed):
                self._counts["steps offered again"] += 1
                await asyncio.sleep(error.seconds)
            elif isinstance(error, (OSError, TimeoutError)):
                await asyncio.sleep(0.5)
            else:
                raise error

    async def _somebody(self) -> Process:
        while True:
            await self._up.wait()
            living = self._processes()
            if living:
                return self._chance.choice(living)
            await asyncio.sleep(0.5)


def _unheard(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
