from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from adapter.engine.names import workflow_id
from tests.eventually import eventually_async
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from tests.workflow.system import System

WAITING: dict[str, Any] = {
    "id": "paid",
    "type": "wait",
    "config": {"event": "order.paid", "match": {"order": "${trigger.order}"}},
}


def register_echo(system: System) -> list[str]:
    seen: list[str] = []

    @system.almanac.registry.action("echo")
    async def echo(word: str) -> dict[str, str]:
        await asyncio.sleep(0)
        seen.append(word)
        return {"word": word}

    return seen


async def test_a_published_chain_runs_to_its_end(system: System) -> None:
    seen = register_echo(system)
    document = chain(*(action(f"s{n}", "echo", input={"word": f"w{n}"}) for n in range(5)))
    await system.call(system.almanac.publish, document)
    async with system.worker():
        started = await system.call(system.almanac.start, "test", {"order": 7})
        view = await system.ended(started.ulid)
    assert view.status == "completed"
    assert seen == ["w0", "w1", "w2", "w3", "w4"]


async def test_an_event_before_and_an_event_after_the_wait_both_arrive(system: System) -> None:
    register_echo(system)
    document = graph(
        WAITING,
        action("ship", "echo", input={"word": "${steps.paid.output.by}"}),
        edges=[("trigger", "paid"), ("paid", "ship")],
    )
    await system.call(system.almanac.publish, document)
    early = await system.call(system.almanac.start, "test", {"order": 1})
    await system.call(system.almanac.emit, "order.paid", {"order": 1, "by": "card"})
    late = await system.call(system.almanac.start, "test", {"order": 2})
    async with system.worker():
        assert (await system.ended(early.ulid)).status == "completed"

        async def waits() -> None:
            view = await system.call(system.almanac.show, late.ulid)
            assert view.status == "waiting"

        await eventually_async(waits)
        await system.call(system.almanac.emit, "order.paid", {"order": 2, "by": "cash"})
        assert (await system.ended(late.ulid)).status == "completed"


async def test_a_timer_wakes_a_waiting_instance(system: System) -> None:
    register_echo(system)
    document = chain(
        {"id": "nap", "type": "delay", "config": {"for": "PT0.3S"}},
        action("up", "echo", input={"word": "up"}),
    )
    await system.call(system.almanac.publish, document)
    async with system.worker():
        started = await system.call(system.almanac.start, "test")
        assert (await system.ended(started.ulid)).status == "completed"


async def test_the_execution_ends_with_its_instance(system: System) -> None:
    register_echo(system)
    await system.call(system.almanac.publish, chain(action("only", "echo", input={"word": "x"})))
    async with system.worker():
        started = await system.call(system.almanac.start, "test")
        await system.ended(started.ulid)
        handle = system.client.get_workflow_handle(workflow_id(started.ulid))
        await asyncio.wait_for(handle.result(), 10)
