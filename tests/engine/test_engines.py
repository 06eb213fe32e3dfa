from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from ulid import ULID

from adapter.engine.executions import TemporalExecutions
from adapter.engine.memory import MemoryEngine
from adapter.engine.names import workflow_id
from adapter.engine.temporal import TemporalEngine
from adapter.errors import Unavailable
from tests.driving.parts import driver_class, turn_activities
from tests.driving.turns import take_turn
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, action, chain, open_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from adapter.engine.protocol import Engine, Execution, Executions

WAIT: dict[str, Any] = {"id": "paid", "type": "wait", "config": {"event": "paid"}}
NAP: dict[str, Any] = {"id": "nap", "type": "delay", "config": {"for": "PT0.2S"}}


@pytest_asyncio.fixture
async def runtime(database_url: str) -> AsyncIterator[Runtime]:
    async with open_runtime(database_url) as runtime:

        @runtime.registry.action("echo")
        async def echo() -> str:
            return "done"

        yield runtime


@dataclass(frozen=True, slots=True)
class Driving:
    """An engine, what it tells of its executions, and how people end one of them by hand."""

    engine: Engine
    executions: Executions
    terminate: Callable[[str], Awaitable[Any]]


@asynccontextmanager
async def in_memory(runtime: Runtime, _request: Any) -> AsyncIterator[Driving]:
    deps = runtime.process()
    engine = MemoryEngine(lambda ulid: take_turn(deps, ulid))
    yield Driving(engine, engine, engine.terminate)
    await engine.close()


@asynccontextmanager
async def on_temporal(runtime: Runtime, request: pytest.FixtureRequest) -> AsyncIterator[Driving]:
    """Driver and turns without a relay, which would poke by itself."""
    client = await Client.connect(request.getfixturevalue("temporal_address"))
    queue = str(ULID())
    turns = turn_activities(runtime.process())
    async with Worker(
        client,
        task_queue=queue,
        workflows=[driver_class()],
        activities=[turns.turn],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="test",
    ):
        yield Driving(
            TemporalEngine(client, queue),
            TemporalExecutions(client, queue),
            lambda ulid: client.get_workflow_handle(workflow_id(ulid)).terminate(),
        )


@pytest_asyncio.fixture(params=[in_memory, on_temporal])
async def driving(runtime: Runtime, request: pytest.FixtureRequest) -> AsyncIterator[Driving]:
    async with request.param(runtime, request) as driving:
        yield driving


@pytest.fixture
def engine(driving: Driving) -> Engine:
    return driving.engine


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


async def listed(driving: Driving, **options: Any) -> list[str]:
    return [one.ulid async for one in driving.executions.listed(**options)]


async def described(driving: Driving, ulid: str, status: str) -> Execution:
    async def check() -> Execution:
        found = await driving.executions.describe(ulid)
        assert found is not None
        assert found.status == status
        return found

    return await eventually_async(check, 20)


async def test_open_executions_are_listed_and_described_and_closed_ones_apart(
    runtime: Runtime, driving: Driving
) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    waiting = [await runtime.begun(chain(WAIT)) for _ in range(2)]
    ended = await runtime.begun(chain(action("a", "echo")))
    for ulid in (*waiting, ended):
        await driving.engine.start(ulid)
    await reaches(runtime, waiting[1], "waiting")
    closed = await described(driving, ended, "completed")

    async def lists() -> None:
        assert await listed(driving) == waiting[::-1]
        assert await listed(driving, closed_since=before) == [ended]

    await eventually_async(lists, 20)
    assert await listed(driving, closed_since=datetime.now(UTC) + timedelta(minutes=1)) == []
    assert (await described(driving, waiting[0], "open")).closed_at is None
    assert closed.closed_at is not None
    assert before < closed.started_at <= closed.closed_at
    assert await driving.executions.describe("01M8Q2ZPZV53ZQN5JH1W7QQN72") is None


async def test_an_execution_that_was_ended_by_hand_is_told_and_a_poke_begins_another(
    runtime: Runtime, driving: Driving
) -> None:
    ulid = await runtime.begun(chain(NAP, action("a", "echo")))
    await driving.engine.start(ulid)
    await reaches(runtime, ulid, "waiting")
    await driving.terminate(ulid)
    await described(driving, ulid, "terminated")

    await driving.engine.poke(ulid)
    await reaches(runtime, ulid, "completed")
    await described(driving, ulid, "completed")


async def test_when_workers_last_asked_is_told_where_it_is_known(
    runtime: Runtime, driving: Driving
) -> None:
    ulid = await runtime.begun(chain(action("a", "echo")))
    await driving.engine.start(ulid)
    await reaches(runtime, ulid, "completed")
    asked = await driving.executions.polled_at()
    if isinstance(driving.engine, MemoryEngine):
        assert asked is None
    else:
        assert asked is not None
        assert abs(datetime.now(UTC) - asked) < timedelta(minutes=2)


async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    client = await Client.connect("127.0.0.1:1", lazy=True)
    engine = TemporalEngine(client, "nowhere")
    with pytest.raises(Unavailable):
        await engine.poke("01M8Q2ZPZV53ZQN5JH1W7QQN72")
    with pytest.raises(Unavailable):
        await engine.start("01M8Q2ZPZV53ZQN5JH1W7QQN72")
    executions = TemporalExecutions(client, "nowhere")
    for call in (executions.describe("01M8Q2ZPZV53ZQN5JH1W7QQN72"), executions.polled_at()):
        with pytest.raises(Unavailable):
            await call
    with pytest.raises(Unavailable):
        assert [one async for one in executions.listed()]
