"""Hands queued steps out beside the driver, while its turn is still under way.

A turn is a local activity, so nothing leaves the driver's workflow task before it ends. A queued
step that becomes due beside handlers of the turn would wait for them; a standalone activity does
not. The driver starts its own activity for the step all the same, once it hears of it: whichever
claims the step runs it, and the other one stands by.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.common import ActivityIDConflictPolicy, ActivityIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from temporal_workflows.contracts import STEP_ACTIVITY, queue_name
from temporal_workflows.driver import STEP_RETRY, STEP_SILENCE, STEP_TIMEOUT

if TYPE_CHECKING:
    from temporalio.client import Client

LOGGER = logging.getLogger("almanac.worker")

DEADLINE = timedelta(milliseconds=500)
"""The turn waits for the answer; without one the step leaves with the turn's end."""

_CANNOT = {RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.INVALID_ARGUMENT}


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
                heartbeat_timeout=STEP_SILENCE,
                retry_policy=STEP_RETRY,
                id_conflict_policy=ActivityIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=ActivityIDReusePolicy.ALLOW_DUPLICATE,
                rpc_timeout=DEADLINE,
            )
        except RPCError as error:
            if error.status in _CANNOT:
                self._able = False
                LOGGER.info(
                    "this Temporal server runs no standalone activities (%s): queued steps that"
                    " become due beside running handlers leave when these end",
                    error.message,
                )
            return False
        except (OSError, RuntimeError):
            return False
        return True
