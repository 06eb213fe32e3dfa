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
    TURN_ACTIVITY,
    WORKFLOW_TYPE,
    Turned,
)

TURN_TIMEOUT = timedelta(days=2)
"""No deadline of its own: the turn bounds itself, the workflow task's heartbeat shows its life."""

TURN_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=[NEWER_JOURNAL, NOT_FOUND],
)
LET_GO = 0.001
"""Seconds of the timer that ends a workflow task, so that a worker that stops can let go."""

IDLE_FIRST = 1.0
IDLE_MOST = 60.0
MAX_SIGNALS = 5_000
"""Temporal refuses the 10,001st signal of a run."""

MAX_EVENTS = 20_000


@workflow.defn(name=WORKFLOW_TYPE)
class InstanceDriver:
    """Drives one instance: turn, wait for a poke or for the time that the turn named, again."""

    def __init__(self) -> None:
        self._poked = False
        self._signals = 0

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
        while True:
            # Cleared before the turn: a poke during it leads to another look.
            self._poked = False
            turned = await self._turn(ulid)
            if turned is None:
                return
            if turned.ended and not self._poked:
                return
            workflow.set_current_details(f"{turned.status} at {turned.node}")
            if self._should_continue_as_new():
                workflow.continue_as_new(ulid)
            if turned.more and not turned.stuck:
                idle = IDLE_FIRST
                await asyncio.sleep(LET_GO)
                continue
            if turned.stuck:
                # Must not become a hot loop; and another worker may have what this one lacks: the
                # first task of a new run goes to any of them, the next one of this run only here.
                await self._wait(idle)
                workflow.continue_as_new(args=[ulid, min(idle * 2, IDLE_MOST)])
            idle = IDLE_FIRST
            await self._wait(turned.delay)

    async def _turn(self, ulid: str) -> Turned | None:
        try:
            turned: Turned = await workflow.execute_local_activity(
                TURN_ACTIVITY,
                ulid,
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

    async def _wait(self, pause: float | None) -> None:
        timeout = None if pause is None else timedelta(seconds=pause)
        try:
            await workflow.wait_condition(lambda: self._poked, timeout=timeout)
        except TimeoutError:
            return

    def _should_continue_as_new(self) -> bool:
        info = workflow.info()
        return (
            info.is_continue_as_new_suggested()
            or self._signals > MAX_SIGNALS
            or info.get_current_history_length() > MAX_EVENTS
        )
