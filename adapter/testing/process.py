"""A worker process of a simulation: turns, queued steps and handlers over the record in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from adapter.errors import StepError
from adapter.execution.cache import FoldCache
from adapter.execution.deps import TurnDeps
from adapter.execution.door import as_failure
from adapter.execution.queued import StepDelayed
from adapter.execution.registry import Registry
from adapter.interpreter.env import Policy
from adapter.settings import Settings
from adapter.testing.graphs import LONG, WORK
from adapter.testing.network import Network, Trouble
from adapter.testing.parts import MemoryKeys, MemoryParts, MemoryPool

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from adapter.execution.attempt import Call
    from adapter.testing.record import MemoryRecord

BEAT = 1.0

_EXPECTED = (OSError, TimeoutError, StepDelayed)
"""What an engine takes for a reason to try again."""

SETTINGS = Settings()


class Process:
    """One worker process.

    Args:
        name: Its id, 26 characters.
        record: The rows.
        chance: The simulation's only source of chance.
        trouble: How often things go wrong.
        new_token: Draws the tokens of turns.
        died: Called when it crashes.
    """

    def __init__(
        self,
        name: str,
        record: MemoryRecord,
        chance: random.Random,
        trouble: Trouble,
        new_token: Callable[[], str],
        died: Callable[[Process], None],
    ) -> None:
        self.name = name
        self.chance = chance
        self.stopping = asyncio.Event()
        self.surprises: list[BaseException] = []
        self._record = record
        self._died = died
        self._tasks: set[asyncio.Task[Any]] = set()
        self.network = Network(chance, trouble, self.crash)
        self.deps = self._deps(new_token)
        self.spawn(self._beat())

    @property
    def alive(self) -> bool:
        """Whether it has not crashed."""
        return not self.network.dead

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs something in this process; it dies with it."""
        task = asyncio.get_running_loop().create_task(self._unless_dead(coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, _EXPECTED):
            self.surprises.append(error)

    async def _unless_dead(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await coroutine
        except BaseException:
            # Of what a dead process does in its last moments nobody hears.
            if self.network.dead:
                raise asyncio.CancelledError from None
            raise

    def crash(self) -> None:
        """Dies at once: nothing that it was about to do happens."""
        if self.network.dead:
            return
        self.network.dead = True
        for task in list(self._tasks):
            task.cancel()
        self._died(self)

    async def _beat(self) -> None:
        while True:
            self._record.workers[self.name] = (self._record.seconds, False)
            await asyncio.sleep(BEAT)

    def _deps(self, new_token: Callable[[], str]) -> TurnDeps:
        registry = _registry()
        parts: Any = MemoryParts(self._record, self.network)
        keys: Any = MemoryKeys(self._record)
        runner: Any = _Runner(self)
        return TurnDeps(
            settings=SETTINGS,
            pool=MemoryPool(),
            worker=self.name,
            registry=registry,
            runner=runner,
            loader=parts,
            looker=parts,
            awaited=parts,
            appender=parts,
            workers=parts,
            leases=parts,
            graphs=parts,
            step_keys=keys,
            wait_keys=keys,
            child_keys=keys,
            cache=FoldCache(self.chance.choice([0, 1, 50])),
            new_token=new_token,
            policies={WORK: Policy(timeout=2.0), LONG: Policy(timeout=30.0)},
            progress=parts,
            effects=cast("Any", None),
            transactions=cast("Any", None),
            step_runner=runner,
        )


class _Runner:
    """Runs handlers as tasks of their process, for as long and with what end chance decides."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, call: Call) -> None:
        """See ``HandlerRunner.submit``."""
        self._process.spawn(self._run(call))

    def cancel(self, call: Call) -> None:
        """See ``HandlerRunner.cancel``."""
        call.ended = True

    def ask(self, call: Call) -> None:
        """See ``HandlerRunner.ask``: a handler that is asked to stop fails."""
        call.fail(_failure("asked to stop"))

    async def _run(self, call: Call) -> None:
        chance = self._process.chance
        call.began = asyncio.get_running_loop().time()
        spans = [0.0, 0.01, 0.3, 1.0] if call.timeout <= 2 else [0.1, 2.0, 15.0]
        span = chance.choice(spans)
        if chance.random() < 0.03:
            span = call.timeout + 1.0
        await asyncio.sleep(min(span, call.timeout))
        if call.ended:
            return
        if span > call.timeout:
            call.expire()
        elif chance.random() < 0.1:
            call.fail(_failure("by chance"))
        else:
            call.succeed({"n": chance.randrange(4)})


def _failure(message: str) -> Any:
    return as_failure(StepError("step_failed", message))


def _registry() -> Registry:
    registry = Registry()

    @registry.action(WORK)
    async def work() -> None:
        """Stands for a short handler; the simulation decides what it does."""

    @registry.action(LONG, timeout="PT30S")
    async def long() -> None:
        """Stands for a handler that is run by an activity of its own."""

    return registry
