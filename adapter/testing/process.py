"""A worker process of a simulation: turns, queued steps and handlers over the record in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from adapter.execution.deps import TurnDeps
from adapter.execution.queued import StepDelayed
from adapter.interpreter.env import Policy
from adapter.settings import Settings
from adapter.testing.graphs import LONG, RARE, WORK
from adapter.testing.handlers import Handlers, registry_of
from adapter.testing.network import Dead, Network, Trouble
from adapter.testing.parts import MemoryKeys, MemoryParts, MemoryPool

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Callable, Coroutine, Generator

    from adapter.execution.cache import FoldCache
    from adapter.testing.record import MemoryRecord

BEAT = 1.0

LEAVING = 20.0
"""Seconds after which a process that was asked to stop is gone."""

_EXPECTED = (OSError, TimeoutError, StepDelayed)
"""What an engine takes for a reason to try again."""

SETTINGS = Settings()
POLICIES = {WORK: Policy(timeout=2.0), RARE: Policy(timeout=2.0), LONG: Policy(timeout=30.0)}


class Process:
    """One worker process.

    Args:
        name: Its id, 26 characters.
        record: The rows.
        chance: The simulation's only source of chance.
        trouble: How often things go wrong.
        counts: What has happened, by name.
        new_token: Draws the tokens of turns.
        cache: What it keeps of instances.
        gone: Called when it is gone.
        knows_all: Whether it has a handler for every action.
    """

    def __init__(
        self,
        name: str,
        record: MemoryRecord,
        chance: random.Random,
        trouble: Trouble,
        counts: Counter[str],
        new_token: Callable[[], str],
        cache: FoldCache,
        gone: Callable[[Process], None],
        *,
        knows_all: bool,
    ) -> None:
        self.name = name
        self.chance = chance
        self.trouble = trouble
        self.counts = counts
        self.stopping = asyncio.Event()
        self.surprises: list[BaseException] = []
        self._record = record
        self._gone = gone
        # In order: sets of tasks have another one in each run.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._working: dict[asyncio.Task[Any], None] = {}
        self._awaits = 0
        self.network = Network(chance, trouble, counts)
        self.deps = self._deps(new_token, cache, knows_all=knows_all)
        self.spawn(self._beat())

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs something in this process; it dies with it."""
        task = asyncio.get_running_loop().create_task(self._unless_dead(coroutine))
        self._tasks[task] = None
        task.add_done_callback(self._over)
        return task

    def work(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs a turn or a step, which a process that leaves waits for."""
        task = self.spawn(coroutine)
        self._working[task] = None
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        self._working.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, _EXPECTED):
            self.surprises.append(error)

    async def _unless_dead(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await _Fragile(coroutine, self._awaited)
        except BaseException:
            # Of what a dead process does in its last moments nobody hears.
            if self.network.dead:
                raise asyncio.CancelledError from None
            raise

    def _awaited(self) -> bool:
        """Whether the process dies at this await."""
        if self.network.dead or not self.trouble.crash:
            return False
        self._awaits -= 1
        if self._awaits > 0:
            return False
        last = self._awaits == 0
        self._awaits = 1 + int(self.chance.expovariate(self.trouble.crash))
        if last:
            self.counts["crashes at an await"] += 1
            self.crash()
        return last

    def crash(self) -> None:
        """Dies at once: nothing that it was about to do happens."""
        if self.network.dead:
            return
        self.counts["crashes"] += 1
        self.network.dead = True
        for task in list(self._tasks):
            task.cancel()
        self._gone(self)

    async def leave(self) -> None:
        """Stops as a worker does that is told to: at the next boundary, steps handed back."""
        self.counts["workers stopped"] += 1
        self.stopping.set()
        if self._working:
            await asyncio.wait(list(self._working), timeout=LEAVING)
        if self.network.dead:
            return
        self._record.workers[self.name] = (self._record.seconds, True)
        self.network.dead = True
        for task in list(self._tasks):
            task.cancel()

    async def _beat(self) -> None:
        while True:
            if not self.trouble.down:
                self._record.workers[self.name] = (self._record.seconds, False)
            await asyncio.sleep(BEAT)

    def _deps(self, new_token: Callable[[], str], cache: FoldCache, *, knows_all: bool) -> TurnDeps:
        record, network = self._record, self.network
        parts: Any = MemoryParts(record, network)
        runner: Any = Handlers(self)
        known = POLICIES if knows_all else {k: v for k, v in POLICIES.items() if k != RARE}
        return TurnDeps(
            settings=SETTINGS,
            pool=MemoryPool(),
            worker=self.name,
            registry=registry_of(known),
            runner=runner,
            loader=parts,
            looker=parts,
            awaited=parts,
            appender=parts,
            workers=parts,
            leases=parts,
            graphs=parts,
            step_keys=MemoryKeys(record.step_ids, network),
            wait_keys=MemoryKeys(record.wait_ids, network),
            child_keys=MemoryKeys(record.numbers, network),
            cache=cache,
            new_token=new_token,
            policies=known,
            progress=parts,
            effects=cast("Any", None),
            transactions=cast("Any", None),
            step_runner=runner,
        )


class _Fragile:
    """A coroutine at each of whose awaits its process may die.

    Args:
        coroutine: What is run.
        awaited: Called when an await is over: whether the process dies there.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], awaited: Callable[[], bool]) -> None:
        self._coroutine = coroutine
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, error = self._coroutine, None
        while True:
            try:
                waited = coroutine.send(None) if error is None else coroutine.throw(error)
            except StopIteration as end:
                return end.value
            try:
                yield waited
            except BaseException as thrown:
                error = thrown
            else:
                error = Dead() if self._awaited() else None
