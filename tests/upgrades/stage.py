"""What scenes play on: the whole system, handlers that wait for them, and turns with tricks."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

from temporalio import activity
from temporalio.exceptions import ApplicationError

from adapter.execution.context import ActionContext  # noqa: TC001 (read from the annotations)
from temporal_workflows import worker
from temporal_workflows.activities import TurnActivities
from temporal_workflows.contracts import TURN_ACTIVITY, Turned, workflow_id
from tests.eventually import eventually_async
from tests.workflow.system import open_system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from adapter.execution.registry import Registry
    from tests.workflow.system import System

QUEUE = "almanac"
PATIENCE = 60

Trick = Turned | ApplicationError | RuntimeError

STUCK = Turned("running", "a", False, False, None, True)
"""What a turn says that can do nothing although something is due."""


class TrickedTurns(TurnActivities):
    """Turns that do something else first, where a scene asks for it.

    Attributes:
        tricks: What comes of the next turns, by ulid.
    """

    tricks: ClassVar[dict[str, list[Trick]]] = {}

    @activity.defn(name=TURN_ACTIVITY)
    async def turn(self, ulid: str, known: list[str]) -> Turned:
        tricks = self.tricks.get(ulid)
        if not tricks:
            return await super().turn(ulid, known)
        trick = tricks.pop(0)
        if isinstance(trick, Turned):
            return trick
        raise trick


class Gate:
    """Where a handler waits for the scene, in whichever thread or loop it runs."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    async def pass_through(self) -> None:
        self.entered.set()
        await asyncio.to_thread(self.opened.wait, PATIENCE)

    def hold(self, ctx: ActionContext) -> None:
        self.entered.set()
        while not self.opened.is_set() and not ctx.cancelled.wait(0.02):
            pass

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, PATIENCE)


class Stage:
    """A system with workers, for scenes that are played one after another."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.almanac = system.almanac
        self.brief, self.long = Gate(), Gate()
        self.willing = False
        self._worker = AsyncExitStack()
        self.register(system.almanac.registry)

    def register(self, registry: Registry) -> None:
        """Registers the actions of the scenes' graphs."""

        @registry.action("up.echo")
        def echo(value: Any = None) -> Any:
            return value

        @registry.action("up.brief")
        async def brief() -> str:
            await self.brief.pass_through()
            return "brief"

        @registry.action("up.shaky")
        def shaky(ctx: ActionContext) -> int:
            if ctx.step.attempt == 1:
                raise ValueError("not yet")
            return ctx.step.attempt

        @registry.action("up.unwilling")
        def unwilling() -> str:
            if not self.willing:
                raise ValueError("not willing")
            return "willing"

        @registry.action("up.failing")
        def failing() -> None:
            raise ValueError("always")

        @registry.action("up.queued", timeout=60)
        def queued(value: Any = None) -> Any:
            return value

        @registry.action("up.long", timeout=60)
        def long(ctx: ActionContext) -> str:
            self.long.hold(ctx)
            return "long"

    async def begin(self) -> None:
        """Starts a worker."""
        await self._worker.enter_async_context(self.system.worker())

    async def stop(self) -> None:
        """Stops it."""
        await self._worker.aclose()

    async def publish(self, *documents: dict[str, Any]) -> None:
        for document in documents:
            await self.system.call(self.almanac.publish, document, check_actions=False)

    async def start(self, key: str, payload: Any = None) -> str:
        started = await self.system.call(self.almanac.start, key, payload)
        ulid: str = started.ulid
        return ulid

    async def tell(self, command: str, ulid: str, *arguments: Any) -> None:
        """Sends a command and waits until it is applied."""
        receipt = await self.system.call(getattr(self.almanac, command), ulid, *arguments)
        await self.system.call(self.almanac.wait_applied, receipt, PATIENCE)

    async def emit(self, key: str, payload: dict[str, Any]) -> None:
        await self.system.call(self.almanac.emit, key, payload)

    async def shows(self, ulid: str, node: str, status: str = "waiting", *, visit: int = 1) -> None:
        """Waits until the latest attempt of a visit to a node has a status."""

        async def has() -> None:
            view = await self.system.call(self.almanac.show, ulid)
            found = [s.status for s in view.steps if s.node == node and s.visit >= visit]
            assert found[-1:] == [status], (view.status, view.failure, found)

        await eventually_async(has, PATIENCE)

    async def has(self, ulid: str, *statuses: str) -> None:
        """Waits until an instance has one of these statuses."""

        async def reached() -> None:
            view = await self.system.call(self.almanac.show, ulid, most=1)
            assert view.status in statuses, (ulid, view.status, view.failure)

        await eventually_async(reached, PATIENCE)

    async def happened(self, ulid: str, kind: str) -> None:
        """Waits until the newest run of an execution has an event of a kind."""
        handle = self.system.client.get_workflow_handle(workflow_id(ulid))

        async def has() -> None:
            history = await handle.fetch_history()
            kinds = [event.WhichOneof("attributes") for event in history.events]
            assert f"{kind}_event_attributes" in kinds

        await eventually_async(has, PATIENCE)

    async def runs(self, ulid: str) -> list[str]:
        """The runs of an instance's execution, the oldest first."""
        found = [
            (execution.start_time, execution.run_id)
            async for execution in self.system.client.list_workflows(
                f"WorkflowId = '{workflow_id(ulid)}'"
            )
        ]
        return [run for _, run in sorted(found)]


@contextmanager
def tricks(ulid: str, *several: Trick) -> Iterator[None]:
    """Has the next turns of an instance come to this."""
    TrickedTurns.tricks[ulid] = list(several)
    try:
        yield
    finally:
        del TrickedTurns.tricks[ulid]


@asynccontextmanager
async def open_stage(
    database_url: str,
    temporal_address: str,
    *,
    task_queue: str = QUEUE,
    queues: tuple[str, ...] = (),
) -> AsyncIterator[Stage]:
    """A stage with a worker, whose drivers are sandboxed as everywhere in tests."""
    chosen = {"grace": timedelta(0), "lease": timedelta(seconds=5), "queues": queues}
    with patch.object(worker, "TurnActivities", TrickedTurns):
        async with open_system(
            database_url, temporal_address, queue=task_queue, worker=chosen
        ) as system:
            stage = Stage(system)
            await stage.begin()
            try:
                yield stage
            finally:
                stage.brief.opened.set()
                stage.long.opened.set()
                await stage.stop()
