"""The handlers that one turn has under way, from their beginning to their report."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from adapter.execution.attempt import GRACE, Call
from adapter.execution.context import InstanceInfo, StepInfo, make_context
from adapter.execution.offers import Offered
from adapter.execution.once import Desk, StepEffects
from adapter.interpreter.events import Failure, Finished

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from adapter.execution.context import ActionContext, Pulse
    from adapter.execution.deps import TurnDeps
    from adapter.execution.runner import HandlerRunner
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.state import Key, Step
    from adapter.records.load import Loaded

LOOK_AGAIN = 1.0
"""Seconds between two looks at handlers that have not begun."""


class Calls:
    """Begins handlers and collects how they ended; belongs to the turn's event loop.

    Args:
        deps: The process's handlers and settings.
        writer: The token of the turn, or of the queued step.
        runner: Where they run; by default where the turns' handlers do.
    """

    def __init__(self, deps: TurnDeps, writer: str, runner: HandlerRunner | None = None) -> None:
        self._deps = deps
        self._runner = runner or deps.runner
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._running: dict[Key, Call] = {}
        self._finished: list[Finished] = []
        self._offered: list[Offered] = []
        self._desk = Desk(
            deps.pool, deps.effects, self._loop, writer, deps.settings.limits.max_output_bytes
        )
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def __bool__(self) -> bool:
        """Whether anything is under way or still to be collected."""
        return bool(self._running or self._finished)

    def begin(
        self,
        step: Step,
        node: CompiledNode,
        values: Mapping[str, Any],
        loaded: Loaded,
        pulse: Pulse | None = None,
    ) -> None:
        """Runs the handler of a step that this turn has just begun.

        Args:
            step: The running step.
            node: Its node, an action that this worker has a handler for.
            values: The resolved input.
            loaded: The instance that it belongs to.
            pulse: Takes the signs of life of a queued step.
        """
        config: Any = node.config
        action = self._deps.registry.actions[config.action]
        queued = config.queue is not None or config.heartbeat is not None
        timeout = action.time_for(node.timeout, queued=queued).total_seconds()
        call = Call(
            step=step.id,
            token=self._writer,
            ulid=loaded.facts.ulid,
            node=node.id,
            number=step.attempt,
            action=action,
            values=values,
            context=None,
            timeout=timeout,
            max_output_bytes=self._deps.settings.limits.max_output_bytes,
            report=self._report,
            transactions=self._deps.transactions,
            repeated=step.failures > 0,
        )
        if action.takes_context:
            call.context = self._context_of(call, step, loaded, pulse)
        self._running[step.id] = call
        self._runner.submit(call)

    def _context_of(
        self, call: Call, step: Step, loaded: Loaded, pulse: Pulse | None
    ) -> ActionContext:
        facts = loaded.facts
        effects = StepEffects(
            self._desk,
            loaded.facts.ulid,
            loaded.id,
            step.id,
            step.node,
            step.visit,
            call.action.is_async,
            call.timeout,
        )
        return make_context(
            InstanceInfo(facts.ulid, str(facts.instance.get("key")), facts.trigger),
            StepInfo(
                step.id,
                step.node,
                step.visit,
                step.attempt,
                f"wf:{facts.ulid}:{step.node}:{step.visit}",
            ),
            loaded.actor,
            facts.subject,
            call.cancelled,
            pulse,
            effects,
        )

    async def results(self, patience: float | None = None) -> list[Finished]:
        """Waits until a handler has ended, and returns all that have.

        Args:
            patience: Seconds after which to return empty-handed; None for as long as it takes.
        """
        if not self._finished:
            pause = min(self._left(call) for call in self._running.values())
            if patience is not None:
                pause = min(pause, patience)
            await self._pause(max(pause, 0.001))
            if not self._finished:
                self._give_up()
        results, self._finished = self._finished, []
        return results

    async def _pause(self, seconds: float) -> None:
        """Returns when a handler has ended, or after the time.

        A bare future and timer: every step waits here, and ``asyncio.timeout`` around an event
        costs three times as much.
        """
        self._waiter = waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, _settle, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def keep_only(self, steps: Container[Key]) -> None:
        """Stops the handlers of steps that are not open any more; their reports are not heard."""
        for key in [key for key in self._running if key not in steps]:
            self._runner.cancel(self._running.pop(key))

    def ask(self) -> None:
        """Asks the handlers to stop; how they end is still heard."""
        for call in self._running.values():
            self._runner.ask(call)

    def close(self) -> None:
        """Stops what is still under way; its reports are not heard any more.

        Transactions that were offered and are still open are rolled back.
        """
        self._closed = True
        for call in self._running.values():
            self._runner.cancel(call)
        for offered in self._offered:
            _abandon(offered)

    def _report(self, finished: Finished) -> None:
        """Called on the thread of the handler, or of the watch."""
        try:
            self._loop.call_soon_threadsafe(self._settle, finished)
        except RuntimeError:
            # The process is about to end: nobody will hear.
            _abandon(finished)

    def _settle(self, finished: Finished) -> None:
        if self._closed or self._running.pop(finished.step, None) is None:
            _abandon(finished)
            return
        if isinstance(finished, Offered):
            self._offered.append(finished)
        self._finished.append(finished)
        if self._waiter is not None:
            _settle(self._waiter)

    def _give_up(self) -> None:
        for key, call in list(self._running.items()):
            if self._left(call) <= 0:
                call.ended = True
                del self._running[key]
                message = f"node {call.node!r} did not end within {call.timeout:g} s, nor report it"
                failure = Failure("step_timed_out", message)
                self._finished.append(Finished(key, self._writer, failure=failure))

    @staticmethod
    def _left(call: Call) -> float:
        """Seconds until the turn gives a call up; one that still queues is not given up."""
        if call.began is None:
            return LOOK_AGAIN
        return call.due + GRACE - time.monotonic()


def _abandon(finished: Finished) -> None:
    if isinstance(finished, Offered) and finished.offer is not None:
        finished.offer.abandon()


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
