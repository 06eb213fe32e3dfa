from __future__ import annotations

import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    ListSearchAttributesRequest,
    RemoveSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from adapter.engine import temporal
from adapter.engine.memory import MemoryEngine
from adapter.engine.names import DEFINITION_ATTRIBUTE, OWNER_ATTRIBUTE, workflow_id
from adapter.engine.protocol import Labels
from adapter.engine.temporal import TemporalEngine
from adapter.records.relaying import Relaying
from temporal_workflows import attributes, driver
from temporal_workflows.attributes import register_attributes
from temporal_workflows.dev.stack import Stack
from temporal_workflows.relay import Relay
from tests.driving.parts import driver_class, turn_activities
from tests.driving.turns import take_turn
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, chain, open_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from adapter.engine.protocol import Engine

WAIT: dict[str, Any] = {"id": "paid", "type": "wait", "config": {"event": "paid"}}


class Seat:
    """An engine, and how people would look for what it drives."""

    def __init__(self, engine: Engine, found: Callable[[Labels], Awaitable[list[str]]]) -> None:
        self.engine = engine
        self.found = found


@pytest_asyncio.fixture
async def runtime(database_url: str) -> AsyncIterator[Runtime]:
    async with open_runtime(database_url) as runtime:
        yield runtime


@asynccontextmanager
async def in_memory(runtime: Runtime, _request: Any) -> AsyncIterator[Seat]:
    deps = runtime.process()
    engine = MemoryEngine(lambda ulid: take_turn(deps, ulid))

    async def found(labels: Labels) -> list[str]:
        return engine.labelled(labels)

    yield Seat(engine, found)
    await engine.close()


@asynccontextmanager
async def driven(runtime: Runtime, client: Client) -> AsyncIterator[str]:
    """A task queue whose worker drives instances; no relay pokes by itself."""
    queue = secrets.token_hex(8)
    turns = turn_activities(runtime.process())
    async with Worker(
        client,
        task_queue=queue,
        workflows=[driver_class()],
        activities=[turns.turn],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="test",
    ):
        yield queue


async def listed(client: Client, labels: Labels) -> list[str]:
    query = (
        f"{DEFINITION_ATTRIBUTE} = '{labels.definition}' AND {OWNER_ATTRIBUTE} = '{labels.owner}'"
        " AND ExecutionStatus = 'Running'"
    )
    return sorted([one.id.removeprefix("wf:") async for one in client.list_workflows(query)])


@asynccontextmanager
async def on_temporal(runtime: Runtime, request: pytest.FixtureRequest) -> AsyncIterator[Seat]:
    client = await Client.connect(request.getfixturevalue("temporal_address"))
    assert await register_attributes(client)
    async with driven(runtime, client) as queue:
        yield Seat(TemporalEngine(client, queue), lambda labels: listed(client, labels))


@pytest_asyncio.fixture(params=[in_memory, on_temporal])
async def seat(runtime: Runtime, request: pytest.FixtureRequest) -> AsyncIterator[Seat]:
    async with request.param(runtime, request) as seat:
        yield seat


async def soon(seat: Seat, labels: Labels, *ulids: str) -> None:
    async def check() -> None:
        assert await seat.found(labels) == sorted(ulids)

    await eventually_async(check, 20)


@pytest.mark.parametrize("call", ["start", "poke"])
async def test_executions_are_found_by_definition_and_owner(
    runtime: Runtime, seat: Seat, call: str
) -> None:
    key = f"orders.{secrets.token_hex(4)}"
    ours, theirs = Labels(key, "team:7"), Labels(key, "*")
    first, second, third = [await runtime.begun(chain(WAIT)) for _ in range(3)]
    tell = getattr(seat.engine, call)
    await tell(first, ours)
    await tell(second, ours)
    await tell(third, theirs)
    await soon(seat, ours, first, second)
    await soon(seat, theirs, third)


async def test_labels_stay_those_of_the_call_that_began_it(runtime: Runtime, seat: Seat) -> None:
    key = f"orders.{secrets.token_hex(4)}"
    first, other = Labels(key, "team:7"), Labels(key, "team:8")
    ulid = await runtime.begun(chain(WAIT))
    await seat.engine.start(ulid, first)
    await seat.engine.start(ulid, other)
    await seat.engine.poke(ulid, other)
    await seat.engine.poke(ulid)
    await soon(seat, first, ulid)
    assert await seat.found(other) == []


async def test_what_has_ended_is_not_found_as_open(runtime: Runtime, seat: Seat) -> None:
    labels = Labels(f"orders.{secrets.token_hex(4)}", "*")
    ulid = await runtime.begun(chain({"id": "end", "type": "end", "config": {}}))
    await seat.engine.start(ulid, labels)

    async def ended() -> None:
        assert (await runtime.instance(ulid))["status"] == "completed"

    await eventually_async(ended, 20)
    await soon(seat, labels)


async def test_labels_outlive_a_run(
    runtime: Runtime, temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "MAX_SIGNALS", 0)
    client = await Client.connect(temporal_address)
    await register_attributes(client)
    labels = Labels(f"orders.{secrets.token_hex(4)}", "team:7")
    async with driven(runtime, client) as queue:
        engine = TemporalEngine(client, queue)
        ulid = await runtime.begun(chain(WAIT))
        await engine.start(ulid, labels)
        first = (await client.get_workflow_handle(workflow_id(ulid)).describe()).run_id

        async def on_another_run() -> None:
            await engine.poke(ulid)
            described = await client.get_workflow_handle(workflow_id(ulid)).describe()
            assert described.run_id != first
            assert described.typed_search_attributes.get(temporal._OWNER) == "team:7"
            assert await listed(client, labels) == [ulid]

        await eventually_async(on_another_run, 20)


async def test_the_relay_labels_with_what_stands_in_the_record(runtime: Runtime) -> None:
    asked: list[tuple[str, str, Labels]] = []

    class Asked:
        async def start(self, ulid: str, labels: Labels) -> None:
            asked.append(("start", ulid, labels))

        async def poke(self, ulid: str, labels: Labels) -> None:
            asked.append(("poke", ulid, labels))

    async def nothing() -> int:
        return 0

    version = await runtime.publish(chain(WAIT))
    owned = await runtime.start(version, owner_type="team", owner_id=7)
    plain = await runtime.start(version)
    relay = Relay(runtime.settings, runtime.pool, Asked(), nothing)  # type: ignore[arg-type]
    await relay.start_batch()
    key = await runtime.pool.fetchval("SELECT key FROM workflow_definitions")
    assert sorted(asked) == sorted(
        [("start", owned, Labels(key, "team:7")), ("start", plain, Labels(key, "*"))]
    )
    async with runtime.pool.acquire() as connection:
        await connection.execute("UPDATE workflow_inbox SET poked_at = NULL, kind = 'note'")
        claims = await Relaying(runtime.settings).claim_pokes(connection, 10)
    assert {(c.ulid, c.definition, c.owner) for c in claims} == {
        (owned, key, "team:7"),
        (plain, key, "*"),
    }


@pytest.fixture(scope="module")
def bare_temporal() -> Iterator[str]:
    """A server of this module's own, whose search attributes come and go."""
    with Stack("temporal") as stack:
        yield stack.temporal_address


async def remove(client: Client) -> None:
    """Takes the attributes from the namespace, whatever was there."""
    if there := sorted(known_names(await known(client))):
        await client.operator_service.remove_search_attributes(
            RemoveSearchAttributesRequest(namespace="default", search_attributes=there)
        )


async def known(client: Client) -> dict[str, Any]:
    request = ListSearchAttributesRequest(namespace="default")
    answer = await client.operator_service.list_search_attributes(request)
    return dict(answer.custom_attributes)


@pytest.mark.parametrize("call", ["start", "poke"])
async def test_a_server_without_the_attributes_refuses_no_execution_and_is_told_of_once(
    bare_temporal: str, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    client = await Client.connect(bare_temporal)
    await remove(client)
    engine = TemporalEngine(client, "nobody")
    labels = Labels("orders", "team:7")
    names = [secrets.token_hex(8) for _ in range(3)]
    with caplog.at_level(logging.INFO):
        for name in names:
            await getattr(engine, call)(name, labels)
        await engine.start(names[0], labels)
    for name in names:
        described = await client.get_workflow_handle(workflow_id(name)).describe()
        assert described.status is not None
    (line,) = caplog.messages
    assert "executions go on without them" in line
    assert f"--name {DEFINITION_ATTRIBUTE} --type Keyword" in line


async def test_labels_are_sent_again_after_a_while(
    bare_temporal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await Client.connect(bare_temporal)
    await remove(client)
    monkeypatch.setattr(temporal, "UNLABELLED", 0.0)
    engine = TemporalEngine(client, "nobody")
    labels = Labels(f"orders.{secrets.token_hex(4)}", "*")
    await engine.start(secrets.token_hex(8), labels)
    assert await register_attributes(client)

    async def found() -> None:
        await engine.start(secrets.token_hex(8), labels)
        assert await listed(client, labels)

    await eventually_async(found, 20)


async def test_registering_again_changes_nothing(bare_temporal: str) -> None:
    client = await Client.connect(bare_temporal)
    await remove(client)
    assert not known_names(await known(client))
    assert await register_attributes(client)
    assert await register_attributes(client)
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    assert known_names(await known(client)) == {
        DEFINITION_ATTRIBUTE: keyword,
        OWNER_ATTRIBUTE: keyword,
    }


def known_names(attributes: dict[str, Any]) -> dict[str, Any]:
    ours = (DEFINITION_ATTRIBUTE, OWNER_ATTRIBUTE)
    return {name: kind for name, kind in attributes.items() if name in ours}


async def test_a_server_that_lets_nobody_register_does_not_stop_a_worker(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attributes, "PATIENCE", 0.5)
    client = await Client.connect("127.0.0.1:1", lazy=True)
    with caplog.at_level(logging.INFO):
        assert not await register_attributes(client)
    assert len(caplog.messages) == 1
