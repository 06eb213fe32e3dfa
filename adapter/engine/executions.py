"""What Temporal tells of its executions: for those who compare it with the record."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from adapter.engine.connecting import connect
from adapter.engine.names import WORKFLOW_TYPE, ulid_of, workflow_id
from adapter.engine.protocol import Execution
from adapter.engine.temporal import TemporalEngine
from adapter.engine.unreachable import NO_ANSWER, reason_of
from adapter.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from temporalio.client import Client, WorkflowExecution

    from adapter.engine.protocol import Engine, Executions
    from adapter.settings import Settings

PAGE: Final = 1_000
OPEN: Final = "ExecutionStatus = 'Running'"

_STATUSES: Final = {
    WorkflowExecutionStatus.RUNNING: "open",
    # Seen between two runs; the next one is as good as there.
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "open",
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
}


class TemporalExecutions:
    """The executions of one task queue.

    Args:
        client: Connected to the namespace.
        task_queue: Where the workers poll.
        deadline: How long one call may take.
    """

    def __init__(
        self, client: Client, task_queue: str, *, deadline: timedelta = timedelta(seconds=5)
    ) -> None:
        self._client = client
        self._task_queue = task_queue
        self._deadline = deadline

    async def listed(self, *, closed_since: datetime | None = None) -> AsyncIterator[Execution]:
        """See ``Executions.listed``; from Temporal's visibility store, which may lag behind.

        Raises:
            Unavailable: The server did not answer in time.
        """
        which = OPEN
        if closed_since is not None:
            moment = closed_since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            which = f"CloseTime > '{moment}'"
        queue = self._task_queue.replace("'", "''")
        found = self._client.list_workflows(
            f"WorkflowType = '{WORKFLOW_TYPE}' AND TaskQueue = '{queue}' AND {which}",
            page_size=PAGE,
            rpc_timeout=self._deadline,
        )
        try:
            async for one in found:
                if (execution := _execution(one)) is not None:
                    yield execution
        except NO_ANSWER as error:
            raise Unavailable(
                f"Temporal did not list its executions: {reason_of(error)}",
                code="temporal_unavailable",
            ) from error

    async def describe(self, ulid: str) -> Execution | None:
        """See ``Executions.describe``.

        Raises:
            Unavailable: The server did not answer in time.
        """
        try:
            handle = self._client.get_workflow_handle(workflow_id(ulid))
            return _execution(await handle.describe(rpc_timeout=self._deadline))
        except NO_ANSWER as error:
            # A server that is short of time may not find its own namespace.
            missing = isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND
            if missing and "amespace" not in str(error):
                return None
            raise Unavailable(
                f"Temporal did not describe {workflow_id(ulid)}: {reason_of(error)}",
                code="temporal_unavailable",
            ) from error

    async def polled_at(self) -> datetime | None:
        """See ``Executions.polled_at``.

        Raises:
            Unavailable: The server did not answer in time.
        """
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=self._task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        try:
            told = await self._client.workflow_service.describe_task_queue(
                request, timeout=self._deadline
            )
        except NO_ANSWER as error:
            raise Unavailable(
                f"Temporal did not describe its task queue: {reason_of(error)}",
                code="temporal_unavailable",
            ) from error
        times = [one.last_access_time.ToDatetime(tzinfo=UTC) for one in told.pollers]
        return max(times, default=None)


@asynccontextmanager
async def open_temporal(
    settings: Settings, seconds: float
) -> AsyncIterator[tuple[Engine, Executions]]:
    """Connects for a short while.

    Args:
        settings: Name the server, the namespace and the task queue.
        seconds: After which a call, or the connecting, is given up.

    Raises:
        Misconfigured: No address is set, or the server has no such namespace.
        Unavailable: It does not answer in time (``temporal_unavailable``).
    """
    client = await connect(settings, seconds)
    deadline = timedelta(seconds=seconds)
    yield (
        TemporalEngine(client, settings.task_queue, deadline=deadline),
        TemporalExecutions(client, settings.task_queue, deadline=deadline),
    )
    # What the last call has left behind is done before the loop ends.
    await asyncio.sleep(0)


def _execution(told: WorkflowExecution) -> Execution | None:
    """None for one that is not named as ours are."""
    ulid = ulid_of(told.id)
    if ulid is None:
        return None
    status = _STATUSES.get(told.status) if told.status is not None else None
    return Execution(ulid, status or "open", told.start_time, told.close_time)
