"""Waits at the side of a queued step's handler: for its end, and for what ends the waiting."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from adapter.graph.durations import parse_duration
from adapter.interpreter.events import Failure, Finished, HandedBack

if TYPE_CHECKING:
    import asyncio
    from datetime import timedelta

    from adapter.execution.calls import Calls
    from adapter.execution.context import Pulse
    from adapter.execution.keeping import Keeper
    from adapter.execution.registry import Action
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.events import Event
    from adapter.interpreter.state import Key
    from adapter.settings import Worker as WorkerSettings

LOGGER = logging.getLogger("almanac.queued")

LOOK = 0.25
"""Seconds between two looks at whether the step is still wanted."""

SOON = 0.05


class StepDelayed(Exception):
    """The step cannot be run here or now: offer it again.

    Attributes:
        seconds: When.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Attendance:
    """Waits for the end of a handler, and for what ends the waiting."""

    def __init__(
        self,
        step: Key,
        token: str,
        node: CompiledNode,
        calls: Calls,
        keeper: Keeper,
        pulse: Pulse,
        *,
        action: Action,
        lease: float,
        worker: WorkerSettings,
        stopping: asyncio.Event,
    ) -> None:
        self.step = step
        self.token = token
        self.node = node
        self.calls = calls
        self.keeper = keeper
        self.pulse = pulse
        self.action = action
        self.patience = None if heartbeat_of(node, action) is None else lease
        self.worker = worker
        self.stopping = stopping
        self.since: float | None = None
        self.asked = False

    async def end(self) -> Event | None:
        """How the step ends; None when it is not this process's any more.

        Raises:
            StepDelayed: The worker stops, and the handler does not: its lease will end.
        """
        while True:
            ended = await self.calls.results(LOOK)
            if ended:
                return self._said(ended[0])
            if self.keeper.lost:
                return None
            silent = self._silence()
            if silent is not None:
                return silent
            if self.stopping.is_set():
                self._stop()

    def _said(self, finished: Finished) -> Event:
        """What a handler says counts, unless it may have stopped half-way because it was asked."""
        deaf = not self.action.is_async and not self.action.takes_context
        if self.asked and not deaf:
            return HandedBack(finished.step, finished.token)
        return finished

    def _silence(self) -> Finished | None:
        beat = self.pulse.beat
        if self.patience is None or beat is None or time.monotonic() - beat <= self.patience:
            return None
        message = f"node {self.node.id!r} gave no sign of life for {self.patience:g} s"
        failure = Failure("step_timed_out", message)
        return Finished(self.step, self.token, failure=failure)

    def _stop(self) -> None:
        now, settings = time.monotonic(), self.worker
        self.since = now if self.since is None else self.since
        if not self.asked and now - self.since >= settings.grace.total_seconds():
            self.asked = True
            self.calls.ask()
        if now - self.since >= settings.shutdown.total_seconds():
            key = self.step
            LOGGER.warning("the handler of step %s does not stop; its lease will end", key)
            raise StepDelayed(f"the worker stopped before the handler of step {key}", SOON)


def heartbeat_of(node: CompiledNode, action: Action) -> timedelta | None:
    """How often a step says that it is alive: as its node asks, else as its action does."""
    config: Any = node.config
    return action.heartbeat if config.heartbeat is None else parse_duration(config.heartbeat)
