"""The worker that both Temporal contenders share; they differ only in the workflow."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import PollerBehaviorSimpleMaximum, UnsandboxedWorkflowRunner, Worker

from benchmarks.contenders.contract import Contender, Servers, drive

if TYPE_CHECKING:
    from benchmarks.loads import Load

POLLERS: Final = 10


@activity.defn
async def step(n: int) -> dict[str, int]:
    """One step of a chain."""
    await asyncio.sleep(0)
    return {"n": n}


class TemporalContender(Contender):
    """One worker and one client in one process; chains start eagerly on that worker.

    Args:
        workflow: The workflow class; its run method takes the number of steps, returns the sum.
        local_activities: How many local activities may run at once; None for the default.
    """

    def __init__(self, workflow: type, *, local_activities: int | None = None) -> None:
        super().__init__()
        self._workflow: Any = workflow
        self._local_activities = local_activities
        self._running = contextlib.AsyncExitStack()

    async def setup(self, servers: Servers) -> None:
        self._client = await Client.connect(
            servers.temporal_address, namespace=servers.temporal_namespace
        )
        self._queue = f"benchmark-{self._workflow.__name__}"
        pollers = PollerBehaviorSimpleMaximum(POLLERS)
        self.facts = {
            "temporalio": version("temporalio"),
            "settings": {
                "sandbox": False,
                "eager_start": True,
                "pollers": POLLERS,
                "max_concurrent_local_activities": self._local_activities,
            },
        }
        await self._running.enter_async_context(
            Worker(
                self._client,
                task_queue=self._queue,
                workflows=[self._workflow],
                activities=[step],
                workflow_runner=UnsandboxedWorkflowRunner(),
                workflow_task_poller_behavior=pollers,
                activity_task_poller_behavior=pollers,
                max_concurrent_local_activities=self._local_activities,
            )
        )

    async def run(self, load: Load) -> float:
        async def chain(steps: int) -> object:
            return await self._client.execute_workflow(
                self._workflow.run,
                steps,
                id=f"{self._queue}-{uuid.uuid4()}",
                task_queue=self._queue,
                request_eager_start=True,
            )

        return await drive(load, chain)

    async def teardown(self) -> None:
        await self._running.aclose()
