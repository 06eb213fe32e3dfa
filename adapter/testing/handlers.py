"""Handlers of a simulated process: how long they take and how they end is left to chance."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from adapter.errors import StepError
from adapter.execution.door import as_failure
from adapter.execution.registry import Registry
from adapter.testing.graphs import LONG, RARE, WORK

if TYPE_CHECKING:
    from collections.abc import Collection

    from adapter.execution.attempt import Call
    from adapter.testing.process import Process

SHORT_SPANS = (0.0, 0.01, 0.3, 1.0)
LONG_SPANS = (0.1, 2.0, 15.0)


class Handlers:
    """Runs handlers as tasks of their process; has the interface of ``HandlerRunner``.

    Args:
        process: Dies now and then of a handler.
    """

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
        process = self._process
        chance, counts = process.chance, process.counts
        call.began = asyncio.get_running_loop().time()
        span = chance.choice(SHORT_SPANS if call.timeout <= 2 else LONG_SPANS)
        if chance.random() < 0.03:
            span = call.timeout + 1.0
        await asyncio.sleep(min(span, call.timeout))
        if call.ended:
            return
        if chance.random() < process.trouble.poison:
            counts["workers killed by a handler"] += 1
            process.crash()
        elif span > call.timeout:
            counts["handlers timed out"] += 1
            call.expire()
        elif chance.random() < 0.1:
            counts["handlers failed"] += 1
            call.fail(_failure("by chance"))
        else:
            call.succeed({"n": chance.randrange(4)})


def _failure(message: str) -> Any:
    return as_failure(StepError("step_failed", message))


def registry_of(actions: Collection[str]) -> Registry:
    """The registry of a process that has handlers for these actions."""
    return _registry(tuple(actions))


@lru_cache
def _registry(actions: tuple[str, ...]) -> Registry:
    registry = Registry()
    if WORK in actions:

        @registry.action(WORK)
        async def work() -> None:
            """Stands for a short handler; the simulation decides what it does."""

    if RARE in actions:

        @registry.action(RARE)
        async def rare() -> None:
            """Stands for a short handler that not every worker has."""

    if LONG in actions:

        @registry.action(LONG, timeout="PT30S")
        async def long() -> None:
            """Stands for a handler that is run by an activity of its own."""

    return registry
