"""Hands queued steps out beside the driver, while its turn is still under way.

A turn is a local activity, so nothing leaves the driver's workflow task before it ends. A queued
step that becomes due beside handlers of the turn would wait for them; a standalone activity does
not. The driver starts its own activity for the step all the same, once it hears of it: whichever
claims the step runs it, and the other one stands by. So what is handed out is tried once and not
for long: nothing of it is left when nobody takes it, or when its instance is gone.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.common import ActivityIDConflictPolicy, ActivityIDReusePolicy, RetryPolicy
from temporalio.service import RPCError, RPCStatusCode

from adapter.engine.unreachable import NO_ANSWER
from temporal_workflows.contracts import STEP_ACTIVITY, queue_name
from temporal_workflows.driver import STEP_SILENCE, STEP_TIMEOUT

if TYPE_CHECKING:
    from temporalio.client import Client

LOGGER = logging.getLogger("almanac.worker")

DEADLINE = timedelta(milliseconds=500)
"""Without an answer by then the step leaves with the turn's end."""

UNTAKEN = timedelta(seconds=30)
"""After that it is left to the driver's own activity."""

ONCE = RetryPolicy(maximum_attempts=1)


class HandingOut:
    """Starts the activity of a queued step outside of any workflow.

    Args:
        client: Connected to the namespace.
        task_queue: The workers' own.
    """

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._able = True

    async def hand_out(self, ulid: str, step: str, queue: str) -> bool:
        """Hands a step to the workers of its queue; at once, or not at all.

        Args:
            ulid: The instance.
            step: The step run's id.
            queue: What its node or action names; "" for none.

        Returns:
            Whether Temporal has taken it.
        """
        if not self._able:
            return False
        try:
            await self._client.start_activity(
                STEP_ACTIVITY,
                args=[ulid, step],
                id=f"step:{ulid}:{step}",
                task_queue=queue_name(self._task_queue, queue),
                start_to_close_timeout=STEP_TIMEOUT,
                schedule_to_start_timeout=UNTAKEN,
                heartbeat_timeout=STEP_SILENCE,
                retry_policy=ONCE,
                id_conflict_policy=ActivityIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=ActivityIDReusePolicy.ALLOW_DUPLICATE,
                rpc_timeout=DEADLINE,
            )
        except NO_ANSWER as error:
            if isinstance(error, RPCError) and error.status == RPCStatusCode.UNIMPLEMENTED:
                self._able = False
                LOGGER.info(
                    "this Temporal server runs no standalone activities (%s): queued steps that"
                    " become due beside running handlers leave when these end",
                    error.message,
                )
            return False
        return True
