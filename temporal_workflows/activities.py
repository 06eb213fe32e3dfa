"""The activities: thin wrappers that turn Temporal's calls into turns and steps."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from adapter.errors import NotFound, Unavailable
from adapter.execution.queued import StepDelayed, run_step
from adapter.execution.turn import take_turn
from adapter.records.load import NewerJournal
from temporal_workflows.contracts import (
    NEWER_JOURNAL,
    NOT_FOUND,
    NOT_NOW,
    STEP_ACTIVITY,
    TURN_ACTIVITY,
    QueuedStep,
    Turned,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adapter.execution.deps import TurnDeps
    from adapter.execution.turned import TurnResult

BEAT = 1.0
"""Seconds between two signs of life of a step's worker."""

ELSEWHERE = 5.0
"""Seconds after which a step is offered again that this worker cannot read."""


class TurnActivities:
    """The turn activity of one worker process.

    Args:
        deps: What the process's turns share.
        stopping: Set when the worker shuts down; turns then return at their next boundary.
        ended: Called with the ulid of an instance that has ended.
        queues: Whether workers of the task queue run queued steps; else all are inline.
    """

    def __init__(
        self,
        deps: TurnDeps,
        stopping: asyncio.Event,
        ended: Callable[[str], None],
        *,
        queues: bool = False,
    ) -> None:
        self._deps = deps
        self._stopping = stopping
        self._ended = ended
        self._queues = queues

    @activity.defn(name=TURN_ACTIVITY)
    async def turn(self, ulid: str, known: list[str]) -> Turned:
        """Takes one turn; only infrastructure errors leave it as exceptions, to be retried.

        Args:
            ulid: The instance.
            known: The steps that are being run by activities.
        """
        try:
            result = await take_turn(
                self._deps, ulid, self._stopping, activities=self._queues, known=frozenset(known)
            )
        except NewerJournal as error:
            raise ApplicationError(error.message, type=NEWER_JOURNAL, non_retryable=True) from error
        except NotFound as error:
            raise ApplicationError(error.message, type=NOT_FOUND, non_retryable=True) from error
        if result.ended:
            self._ended(ulid)
        start, stop = _changed(result, known)
        return Turned(
            result.status,
            result.node,
            result.ended,
            result.more,
            result.delay,
            result.stuck,
            self._stopping.is_set(),
            start,
            stop,
        )


class StepActivities:
    """The activity of queued steps of one worker process.

    Args:
        deps: What the process's turns and steps share.
        stopping: Set when the worker shuts down; steps are then handed back.
        poke: Called with the ulid when its driver has to look and would hear of it in no other way.
    """

    def __init__(
        self, deps: TurnDeps, stopping: asyncio.Event, poke: Callable[[str], Awaitable[None]]
    ) -> None:
        self._deps = deps
        self._stopping = stopping
        self._poke = poke

    @activity.defn(name=STEP_ACTIVITY)
    async def step(self, ulid: str, step: str) -> None:
        """Runs a queued step, or asks for it to be offered again.

        A cancellation is hearsay: Temporal may have forgotten the execution, or begun another run
        of it. The record is asked, and ends the step if it is not wanted any more.
        """
        doubt = asyncio.Event()
        # Handed out by a turn: the driver does not know it, and cannot cancel it.
        alone = not activity.info().in_workflow
        running = asyncio.create_task(
            run_step(
                self._deps,
                ulid,
                step,
                doubt=doubt,
                stopping=self._stopping,
                alone=alone,
            )
        )
        try:
            await _outlive(running, doubt)
        except StepDelayed as delayed:
            raise _again(str(delayed), NOT_NOW, delayed.seconds) from delayed
        except NewerJournal as error:
            raise _again(error.message, NEWER_JOURNAL, ELSEWHERE) from error
        except NotFound as error:
            # Deleted, or not in the backup that was restored: its driver has to look, and ends. Or
            # another deployment polls this task queue. What was handed out is not repeated.
            await self._have_looked(ulid)
            raise _again(error.message, NOT_FOUND, ELSEWHERE) from error
        if alone:
            await self._have_looked(ulid)

    async def _have_looked(self, ulid: str) -> None:
        """Pokes the driver; when that is lost, the activity that it has for the step tells it."""
        with suppress(Unavailable):
            await self._poke(ulid)


async def _outlive(running: asyncio.Task[None], doubt: asyncio.Event) -> None:
    """Waits for a step whatever Temporal says, which hears meanwhile that this worker lives.

    A step that waits for a connection to be claimed, or recorded, is not a dead worker's.
    """
    while not running.done():
        activity.heartbeat()
        try:
            await asyncio.wait([running], timeout=BEAT)
        except asyncio.CancelledError:
            doubt.set()
    await running


def _again(message: str, kind: str, seconds: float) -> ApplicationError:
    return ApplicationError(
        message,
        type=kind,
        next_retry_delay=timedelta(seconds=seconds),
        category=ApplicationErrorCategory.BENIGN,
    )


def _changed(result: TurnResult, known: Sequence[str]) -> tuple[list[QueuedStep], list[str]]:
    """What the driver has to start and to stop; only changes cross, as there may be thousands."""
    if result.queued is None:
        return [], []
    listed = {queued.step for queued in result.queued}
    begun = set(known)
    start = [QueuedStep(q.step, q.queue) for q in result.queued if q.step not in begun]
    return start, [step for step in known if step not in listed]
