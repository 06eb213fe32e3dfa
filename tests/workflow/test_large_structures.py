from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from adapter.engine.names import workflow_id
from adapter.errors import InvalidDocument
from adapter.graph.regions import MAX_NESTED
from adapter.services.views import ENDED
from tests.eventually import eventually_async
from tests.execution.runtime import action, graph

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adapter.services.views import InstanceView
    from tests.workflow.system import System

ITEMS = 1_000
BYTES = 100_000
MEGABYTE = 1024 * 1024


@asynccontextmanager
async def measured() -> AsyncIterator[list[int]]:
    """Bytes of memory that the process has, looked at again and again."""
    seen = [_resident()]

    async def look() -> None:
        while True:
            seen.append(_resident())
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()


def _resident() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


async def _history_bytes(system: System, ulid: str) -> int:
    described = await system.client.get_workflow_handle(workflow_id(ulid)).describe()
    return described.raw_description.workflow_execution_info.history_size_bytes


async def _ended(system: System, ulid: str) -> InstanceView:
    """Waits without reading the outputs, which the worker does not keep either."""

    async def there() -> InstanceView:
        view: InstanceView = await system.call(system.almanac.show, ulid, most=1)
        assert view.status in ENDED
        return view

    return await eventually_async(there, 100)


@pytest.mark.parametrize("lane", ["inline", "queued"])
async def test_a_thousand_items_with_outputs_of_100_kb_cost_neither_history_nor_memory(
    system: System, lane: str
) -> None:
    @system.almanac.registry.action("large")
    async def large(item: int) -> str:
        await asyncio.sleep(0)
        return chr(ord("a") + item % 26) * BYTES

    body = action("make", "large", input={"item": "${ item }"})
    if lane == "queued":
        body["config"]["heartbeat"] = "PT10S"
    items = {
        "id": "all",
        "type": "for_each",
        "config": {"items": list(range(ITEMS)), "body": "make", "concurrency": 20},
    }
    await system.call(system.almanac.publish, graph(items, body, edges=[("trigger", "all")]))
    async with system.worker():
        async with measured() as memory:
            started = await system.call(system.almanac.start, "test")
            view = await _ended(system, started.ulid)
        size = await _history_bytes(system, started.ulid)
    assert view.status == "completed"
    assert size < MEGABYTE
    assert max(memory) - memory[0] < ITEMS * BYTES / 2


def _nested(levels: int) -> dict[str, Any]:
    """A step inside of so many bodies, of each kind in turn."""
    nodes: list[dict[str, Any]] = []
    for level in range(levels):
        inner = f"n{level + 1}" if level + 1 < levels else "core"
        configs: list[dict[str, Any]] = [
            {"branches": {"only": inner}},
            {"items": [level], "body": inner},
            {"body": inner, "until": "true"},
        ]
        kind = ["parallel", "for_each", "repeat"][level % 3]
        nodes.append({"id": f"n{level}", "type": kind, "config": configs[level % 3]})
    core = action("core", "core", input={"item": "${ item }"})
    return graph(*nodes, core, edges=[("trigger", "n0")])


async def test_a_step_inside_as_many_bodies_as_may_be_runs(system: System) -> None:
    @system.almanac.registry.action("core")
    def core(item: int) -> int:
        return item

    await system.call(system.almanac.publish, _nested(MAX_NESTED))
    async with system.worker():
        started = await system.call(system.almanac.start, "test")
        view = await system.ended(started.ulid)
    assert view.status == "completed"
    steps = {step.node: step for step in view.steps}
    assert steps["core"].output == max(range(1, MAX_NESTED, 3))
    assert {step.status for step in view.steps} == {"succeeded"}
    assert len(view.steps) == MAX_NESTED + 2


async def test_more_bodies_than_may_be_are_refused_at_any_depth(system: System) -> None:
    system.almanac.registry.action("core")(lambda item: item)
    for levels in (MAX_NESTED + 1, 100, 1_900):
        codes = {finding.code for finding in system.almanac.validate(_nested(levels))}
        assert codes == {"nested_too_deep"}
        with pytest.raises(InvalidDocument):
            await system.call(system.almanac.publish, _nested(levels))
