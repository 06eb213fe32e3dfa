"""The driver: one generic Temporal workflow that says when to look, and never what to do.

It holds no state of the instance, so a replay cannot take another path than the record did, and a
run that is lost is replaced by starting another one.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from temporal_workflows.contracts import (
    LOOK_SIGNAL,
    NEWER_JOURNAL,
    NOT_FOUND,
    STEP_ACTIVITY,
    TURN_ACTIVITY,
    WORKFLOW_TYPE,
    QueuedStep,
    Turned,
    queue_name,
)

TURN_TIMEOUT = timedelta(days=2)
"""No deadline of its own: the turn bounds itself, the workflow task's heartbeat shows its life."""

TURN_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=[NEWER_JOURNAL, NOT_FOUND],
)
STEP_TIMEOUT = timedelta(days=3650)
"""None, which Temporal does not offer: attempts and their time-outs are the record's."""

STEP_SILENCE = timedelta(seconds=5)
"""A worker that is silent for so long has died; another one is offered its step, and finds out."""

STEP_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=10)
)
LET_GO = 0.001
"""Seconds of the timer that ends a workflow task: commands leave, and a worker that stops lets go.

A server with default settings fires it up to a second late, so it is set only where it is needed.
"""

TURNS_IN_A_TASK = 20
"""Turns, of about a second each, after which the task ends in any case."""

IDLE_FIRST = 1.0
IDLE_MOST = 60.0
MAX_SIGNALS = 5_000
"""Temporal refuses the 10,001st signal of a run."""

MAX_EVENTS = 20_000


@workflow.defn(name=WORKFLOW_TYPE)
class InstanceDriver:
    """Drives one instance: turn, run queued steps, wait for a poke or a time, again.

    What it knows of activities is only what Temporal tells it in this run.
    """

    def __init__(self) -> None:
        self._poked = False
        self._signals = 0
        self._steps: dict[str, workflow.ActivityHandle[None]] = {}
        self._stopped: set[str] = set()

    @workflow.signal(name=LOOK_SIGNAL)
    def look(self) -> None:
        """Something was written for the instance; what it is stands in the record."""
        self._poked = True
        self._signals += 1

    @workflow.run
    async def run(self, ulid: str, idle: float = IDLE_FIRST) -> None:
        """Drives until the record says that the instance has ended.

        Args:
            ulid: The instance.
            idle: Seconds to pause after a turn that could not do what is due.
        """
        turns = 0
        while True:
            # Cleared before the turn: a poke during it leads to another look.
            self._poked = False
            turned = await self._turn(ulid)
            if turned is None:
                return
            workflow.set_current_details(f"{turned.status} at {turned.node}")
            if turned.ended and not self._poked:
                return
            if self._should_continue_as_new():
                workflow.continue_as_new(ulid)
            issued = self._reconcile(ulid, turned)
            if turned.more and not turned.stuck:
                idle = IDLE_FIRST
                turns += 1
                if issued or turned.leaving or turns % TURNS_IN_A_TASK == 0:
                    await asyncio.sleep(LET_GO)
                continue
            if turned.stuck:
                # Must not become a hot loop; and another worker may have what this one lacks: the
                # first task of a new run goes to any of them, the next one of this run only here.
                await self._wait(idle)
                idle = min(idle * 2, IDLE_MOST)
                if not self._steps:
                    workflow.continue_as_new(args=[ulid, idle])
                continue
            idle = IDLE_FIRST
            await self._wait(turned.delay)

    async def _turn(self, ulid: str) -> Turned | None:
        try:
            turned: Turned = await workflow.execute_local_activity(
                TURN_ACTIVITY,
                args=[ulid, list(self._steps)],
                result_type=Turned,
                start_to_close_timeout=TURN_TIMEOUT,
                retry_policy=TURN_RETRY,
            )
            return turned
        except (ActivityError, ApplicationError) as error:
            # A local activity's own error comes as it is, not as the cause of an ActivityError.
            cause = error.cause if isinstance(error, ActivityError) else error
            if isinstance(cause, ApplicationError) and cause.type == NOT_FOUND:
                return None
            if isinstance(cause, ApplicationError) and cause.type == NEWER_JOURNAL:
                # Fails the task, not the instance: a worker that is up to date takes it.
                raise RuntimeError(cause.message) from error
            raise

    def _reconcile(self, ulid: str, turned: Turned) -> bool:
        """Starts and stops activities as the turn says; True when it gave any command."""
        issued = False
        for step in turned.stop:
            if step in self._steps and step not in self._stopped:
                # Until it has stopped it stays known: Temporal refuses a second one of its id.
                self._stopped.add(step)
                self._steps[step].cancel()
                issued = True
        for queued in turned.start:
            if queued.step not in self._steps:
                self._start(ulid, queued)
                issued = True
        return issued

    def _start(self, ulid: str, queued: QueuedStep) -> None:
        handle = workflow.start_activity(
            STEP_ACTIVITY,
            args=[ulid, queued.step],
            activity_id=queued.step,
            task_queue=queue_name(workflow.info().task_queue, queued.queue),
            start_to_close_timeout=STEP_TIMEOUT,
            heartbeat_timeout=STEP_SILENCE,
            retry_policy=STEP_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        self._steps[queued.step] = handle
        handle.add_done_callback(lambda _: self._over(queued.step))

    def _over(self, step: str) -> None:
        """Looks at the record for how a step ended; what its activity says of it is not asked."""
        handle = self._steps.pop(step)
        self._stopped.discard(step)
        if not handle.cancelled():
            handle.exception()
        self._poked = True

    async def _wait(self, pause: float | None) -> None:
        timeout = None if pause is None else timedelta(seconds=pause)
        try:
            await workflow.wait_condition(lambda: self._poked, timeout=timeout)
        except TimeoutError:
            return

    def _should_continue_as_new(self) -> bool:
        """Whether to go on in a fresh run: at a quiet point if there is one in time.

        Activities that are under way are left to themselves: they hear from the record whether
        they are still wanted, and the leases of their steps keep second ones out.
        """
        info = workflow.info()
        if self._signals > MAX_SIGNALS or info.get_current_history_length() > MAX_EVENTS:
            return True
        return info.is_continue_as_new_suggested() and not self._steps
