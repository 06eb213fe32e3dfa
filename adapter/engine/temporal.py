"""Temporal behind the engine's protocol: one workflow execution per unfinished instance."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from adapter.engine.names import LOOK_SIGNAL, TASK_TIMEOUT, WORKFLOW_TYPE, workflow_id
from adapter.errors import Unavailable

if TYPE_CHECKING:
    from temporalio.client import Client


_NO_ANSWER = (RPCError, OSError, RuntimeError)
"""What the client raises without an answer; RuntimeError where a lazy one cannot connect."""


class TemporalEngine:
    """Starts and signals executions of the driver.

    Args:
        client: Connected to the namespace.
        task_queue: Where the workers poll.
        deadline: How long one call may take.
    """

    def __init__(
        self, client: Client, task_queue: str, *, deadline: timedelta = timedelta(seconds=2)
    ) -> None:
        self._client = client
        self._task_queue = task_queue
        self._deadline = deadline

    async def start(self, ulid: str) -> None:
        """Starts the execution, eagerly if a worker of this process can take it.

        A run that exists already may be about to close without having seen what this start is for,
        so it is signalled.

        Raises:
            Unavailable: The server did not answer in time.
        """
        try:
            await self._start(ulid, WorkflowIDConflictPolicy.FAIL, eager=True)
        except WorkflowAlreadyStartedError:
            await self.poke(ulid)

    async def poke(self, ulid: str) -> None:
        """Signals the execution, starting one if none is open.

        The server refuses to close a run over a signal it has not handled, so a poke that meets a
        closing run is seen by it or by the next one.

        Raises:
            Unavailable: The server did not answer in time.
        """
        await self._start(ulid, WorkflowIDConflictPolicy.USE_EXISTING, signal=LOOK_SIGNAL)

    async def _start(
        self,
        ulid: str,
        conflict: WorkflowIDConflictPolicy,
        *,
        eager: bool = False,
        signal: str | None = None,
    ) -> None:
        try:
            await self._client.start_workflow(
                WORKFLOW_TYPE,
                ulid,
                id=workflow_id(ulid),
                task_queue=self._task_queue,
                id_conflict_policy=conflict,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                task_timeout=TASK_TIMEOUT,
                request_eager_start=eager,
                start_signal=signal,
                rpc_timeout=self._deadline,
            )
        except _NO_ANSWER as error:
            raise Unavailable(f"Temporal did not take {workflow_id(ulid)}: {error}") from error
