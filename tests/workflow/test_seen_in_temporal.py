"""What people see who look at Temporal, as its UI shows it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest
from temporalio.common import SearchAttributeKey

from adapter.engine.names import DEFINITION_ATTRIBUTE, OWNER_ATTRIBUTE, workflow_id
from tests.eventually import eventually_async
from tests.execution.runtime import action, chain

if TYPE_CHECKING:
    from tests.workflow.system import System

DEFINITION = SearchAttributeKey.for_keyword(DEFINITION_ATTRIBUTE)
OWNER = SearchAttributeKey.for_keyword(OWNER_ATTRIBUTE)
WAIT: dict[str, Any] = {"id": "paid", "type": "wait", "config": {"signal": "paid"}}


async def listed(system: System, query: str) -> list[tuple[str, str, str]]:
    """Id, definition and owner of the executions that a query finds."""
    rows = []
    async for one in system.client.list_workflows(query):
        held = one.typed_search_attributes
        rows.append((one.id, held[DEFINITION], held[OWNER]))
    return sorted(rows)


async def publish(system: System) -> str:
    """Publishes a wait with a handler after it, under a key of its own."""
    key = f"orders.{secrets.token_hex(6)}"
    document = {**chain(WAIT, action("ship", "ship")), "key": key}
    await system.call(system.almanac.publish, document)
    return key


async def test_the_details_tell_status_and_node(system: System) -> None:
    @system.almanac.registry.action("ship")
    async def ship() -> None:
        return None

    key = await publish(system)
    async with system.worker():
        ulid = (await system.call(system.almanac.start, key)).ulid
        await system.shows(ulid, "waiting at paid")
        await system.call(system.almanac.pause, ulid)
        await system.shows(ulid, "paused at paid")
        await system.call(system.almanac.resume, ulid)
        await system.shows(ulid, "waiting at paid")


@pytest.mark.parametrize(
    ("code", "status", "node"), [(None, "completed", "ship"), ("broken", "failed", "ship")]
)
async def test_the_details_of_what_has_ended_tell_how_and_where(
    system: System, code: str | None, status: str, node: str
) -> None:
    @system.almanac.registry.action("ship")
    async def ship() -> None:
        if code:
            raise ValueError(code)

    key = await publish(system)
    async with system.worker():
        ulid = (await system.call(system.almanac.start, key)).ulid
        await system.shows(ulid, "waiting at paid")
        await system.call(system.almanac.signal, ulid, "paid", {})
        assert (await system.ended(ulid)).status == status
        await system.shows(ulid, f"{status} at {node}")


async def test_executions_are_listed_with_definition_and_owner(system: System) -> None:
    @system.almanac.registry.action("ship")
    async def ship() -> None:
        return None

    key, other = await publish(system), await publish(system)
    async with system.worker():
        owners = [{}, {"owner": ("team", 7)}]
        ours = [(await system.call(system.almanac.start, key, **more)).ulid for more in owners]
        await system.call(system.almanac.start, other)

        async def are_listed() -> None:
            of_definition = f"{DEFINITION_ATTRIBUTE} = '{key}' AND ExecutionStatus = 'Running'"
            of_owner = f"{of_definition} AND {OWNER_ATTRIBUTE} = 'team:7'"
            rows = [(workflow_id(ours[0]), key, "*"), (workflow_id(ours[1]), key, "team:7")]
            assert await listed(system, of_definition) == rows
            assert await listed(system, of_owner) == rows[1:]

        await eventually_async(are_listed, 30)
