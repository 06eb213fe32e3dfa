from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from ulid import ULID

from adapter.engine.memory import MemoryEngine
from adapter.engine.temporal import TemporalEngine
from adapter.errors import Unavailable
from adapter.execution.turn import take_turn
from temporal_workflows.activities import TurnActivities
from temporal_workflows.driver import InstanceDriver
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, action, chain, open_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adapter.engine.protocol import Engine

WAIT: dict[str, Any] = {"id": "paid", "type": "wait", "config": {"event": "paid"}}
NAP: dict[str, Any] = {"id": "nap", "type": "delay", "config": {"for": "PT0.2S"}}


@pytest_asyncio.fixture
async def runtime(database_url: str) -> AsyncIterator[Runtime]:
    async with open_runtime(database_url) as runtime:

        @runtime.registry.action("echo")
        async def echo() -> str:
            return "done"

        yield runtime


@asynccontextmanager
async def in_memory(runtime: Runtime, _request: Any) -> AsyncIterator[Engine]:
    deps = runtime.process()
    engine = MemoryEngine(lambda ulid: take_turn(deps, ulid))
    yield engine
    await engine.close()


@asynccontextmanager
async def on_temporal(runtime: Runtime, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    """Driver and turns without a relay, which would poke by itself."""
    client = await Client.connect(request.getfixturevalue("temporal_address"))
    queue = str(ULID())
    turns = TurnActivities(runtime.process(), asyncio.Event(), lambda _ulid: None)
    async with Worker(
        client,
        task_queue=queue,
        workflows=[InstanceDriver],
        activities=[turns.turn],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="test",
    ):
        yield TemporalEngine(client, queue)


@pytest_asyncio.fixture(params=[in_memory, on_temporal])
async def engine(runtime: Runtime, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    async with request.param(runtime, request) as engine:
        yield engine


async def reaches(runtime: Runtime, ulid: str, status: str) -> None:
    async def check() -> None:
        assert (await runtime.instance(ulid))["status"] == status

    await eventually_async(check, 20)


async def test_a_started_instance_goes_to_its_end_over_a_timer(
    runtime: Runtime, engine: Engine
) -> None:
    ulid = await runtime.begun(chain(action("a", "echo"), NAP, action("b", "echo")))
    await engine.start(ulid)
    await reaches(runtime, ulid, "completed")


async def test_a_poke_makes_a_waiting_instance_look(runtime: Runtime, engine: Engine) -> None:
    ulid = await runtime.begun(chain(WAIT, action("a", "echo")))
    await engine.start(ulid)
    await reaches(runtime, ulid, "waiting")
    event = await runtime.emit("paid", {})
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind, event_id)"
        " SELECT id, 'event', $2 FROM workflow_instances WHERE ulid = $1",
        ulid,
        event,
    )
    await engine.poke(ulid)
    await reaches(runtime, ulid, "completed")


async def test_a_poke_starts_what_nobody_started_and_repeats_do_no_harm(
    runtime: Runtime, engine: Engine
) -> None:
    ulid = await runtime.begun(chain(action("a", "echo")))
    await asyncio.gather(engine.poke(ulid), engine.start(ulid), engine.poke(ulid))
    await reaches(runtime, ulid, "completed")
    await engine.start(ulid)
    await engine.poke(ulid)
    await reaches(runtime, ulid, "completed")
    assert [step for step in await runtime.steps(ulid) if step[0] == "a"] == [("a", 1, "succeeded")]


async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    client = await Client.connect("127.0.0.1:1", lazy=True)
    engine = TemporalEngine(client, "nowhere")
    with pytest.raises(Unavailable):
        await engine.poke("01M8Q2ZPZV53ZQN5JH1W7QQN72")
    with pytest.raises(Unavailable):
        await engine.start("01M8Q2ZPZV53ZQN5JH1W7QQN72")
