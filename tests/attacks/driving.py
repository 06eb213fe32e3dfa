"""Real Temporal executions of instances, with the turn that the test gives them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from ulid import ULID

from adapter.engine.temporal import TemporalEngine
from temporal_workflows.contracts import TURN_ACTIVITY, Turned, workflow_id
from tests.driving.parts import driver_class
from tests.eventually import eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from temporalio.api.history.v1 import HistoryEvent

    from temporal_workflows.activities import TurnActivities
    from tests.execution.runtime import Runtime


@dataclass(slots=True)
class Driven:
    """A task queue of the test's own, and what its executions have done."""

    client: Client
    queue: str
    engine: TemporalEngine

    @classmethod
    async def at(cls, address: str) -> Driven:
        client = await Client.connect(address)
        queue = f"attacks-{ULID()}"
        return cls(client, queue, TemporalEngine(client, queue))

    @asynccontextmanager
    async def worker(
        self, *turns: TurnActivities | Turns, sandboxed: bool = True, **options: Any
    ) -> AsyncIterator[Worker]:
        """A worker of the queue; unsandboxed it sees the driver's patched constants."""
        worker = Worker(
            self.client,
            task_queue=self.queue,
            workflows=[driver_class()],
            activities=[turns[0].turn],
            workflow_runner=(
                SandboxedWorkflowRunner() if sandboxed else UnsandboxedWorkflowRunner()
            ),
            build_id="attacks",
            **options,
        )
        async with worker:
            yield worker

    async def history(self, ulid: str, run: str | None = None) -> list[HistoryEvent]:
        handle = self.client.get_workflow_handle(workflow_id(ulid), run_id=run)
        return [event async for event in handle.fetch_history_events()]

    async def count(self, ulid: str, kind: str) -> int:
        """How many events of a kind, such as ``workflow_task_failed``, the newest run has."""
        name = f"{kind}_event_attributes"
        return sum(event.WhichOneof("attributes") == name for event in await self.history(ulid))

    async def run_id(self, ulid: str) -> str:
        described = await self.client.get_workflow_handle(workflow_id(ulid)).describe()
        return described.run_id or ""


class Turns:
    """Turns with something before or after them; registered in place of the worker's own.

    Args:
        inner: The turns themselves.
        before: Awaited before a turn.
        after: Awaited with its result, before Temporal learns of it.
    """

    def __init__(
        self,
        inner: TurnActivities,
        *,
        before: Callable[[], Awaitable[None]] | None = None,
        after: Callable[[Turned], Awaitable[None]] | None = None,
    ) -> None:
        self.taken: list[Turned] = []
        self._inner = inner
        self._before = before
        self._after = after

    @activity.defn(name=TURN_ACTIVITY)
    async def turn(self, ulid: str, known: list[str]) -> Turned:
        if self._before is not None:
            await self._before()
        turned = await self._inner.turn(ulid, known)
        self.taken.append(turned)
        if self._after is not None:
            await self._after(turned)
        return turned


async def reaches(runtime: Runtime, ulid: str, status: str, deadline: float = 20) -> None:
    """Waits until the instance has a status."""

    async def has() -> None:
        assert (await runtime.instance(ulid))["status"] == status

    await eventually_async(has, deadline)
