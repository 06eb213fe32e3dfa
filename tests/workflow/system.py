"""The whole system for tests: SDK, worker and Temporal on a database of the test's own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from adapter.client.almanac import Almanac
from adapter.engine.names import workflow_id
from adapter.execution.registry import Registry
from adapter.settings import Settings
from temporal_workflows.worker import running_worker
from tests.eventually import eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adapter.services.views import InstanceView
    from temporal_workflows.relay import Relay


METADATA = "__temporal_workflow_metadata"
"""What Temporal's UI asks an execution for."""


@dataclass(slots=True)
class System:
    """An Almanac, its settings and a client of its Temporal server."""

    almanac: Almanac
    settings: Settings
    client: Client

    @asynccontextmanager
    async def worker(self, registry: Registry | None = None) -> AsyncIterator[Relay]:
        """A worker with the driver in Temporal's sandbox, which production does without."""
        async with running_worker(
            self.settings,
            registry or self.almanac.registry,
            client=self.client,
            workflow_runner=SandboxedWorkflowRunner(),
        ) as relay:
            yield relay

    async def ended(self, ulid: str, seconds: float = 30) -> InstanceView:
        """Waits for an instance's end without holding up the loop that its worker runs on."""
        return await asyncio.to_thread(self.almanac.wait, ulid, seconds)

    async def shows(self, ulid: str, details: str, deadline: float = 30) -> None:
        """Waits until an execution's current details are these: its driver has heard of a turn."""
        handle = self.client.get_workflow_handle(workflow_id(ulid))

        async def does() -> None:
            try:
                metadata = await handle.query(METADATA, result_type=WorkflowMetadata)
            except RPCError as error:
                raise AssertionError("it has not begun") from error
            assert metadata.current_details == details

        await eventually_async(does, deadline)

    async def call(self, function: Any, *arguments: Any, **more: Any) -> Any:
        """Calls the SDK in a thread."""
        return await asyncio.to_thread(function, *arguments, **more)


@asynccontextmanager
async def open_system(
    database_url: str, temporal_address: str, *, queue: str, **settings: Any
) -> AsyncIterator[System]:
    """A system on a migrated database; ``queue`` keeps it apart from others on the server."""
    chosen = Settings(
        database_url=database_url,
        temporal_address=temporal_address,
        task_queue=queue,
        **settings,
    )
    client = await Client.connect(temporal_address)
    with Almanac(chosen, registry=Registry()) as almanac:
        yield System(almanac, chosen, client)
