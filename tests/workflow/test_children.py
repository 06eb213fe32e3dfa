from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.eventually import eventually_async
from tests.execution.families import ending, line, starting
from tests.execution.runtime import open_runtime

if TYPE_CHECKING:
    from temporal_workflows.dev.stack import Stack
    from tests.workflow.system import System

HOLD: dict[str, Any] = {"id": "hold", "type": "wait", "config": {"signal": "go"}}


async def publish(system: System, *nodes: dict[str, Any], key: str) -> None:
    await system.call(system.almanac.publish, line(*nodes, key=key))


async def children(system: System, ulid: str) -> list[Any]:
    return list((await system.call(system.almanac.show, ulid)).children)


async def test_a_parent_goes_on_with_what_its_children_have_made(system: System) -> None:
    await publish(system, ending("${ trigger.n * 2 }"), key="double")
    start = starting("double", items="${ trigger.items }", input={"n": "${ item }"})
    await publish(
        system, start, ending("${ steps.call.output.results.map(r, r.output) }"), key="parent"
    )
    async with system.worker():
        started = await system.call(system.almanac.start, "parent", {"items": list(range(50))})
        view = await system.ended(started.ulid)
    assert view.status == "completed"
    assert view.steps[-1].output == [2 * n for n in range(50)]
    assert {child.status for child in view.children} == {"completed"}


async def test_a_cancel_goes_down_and_a_cancelled_child_fails_its_parents(system: System) -> None:
    await publish(system, HOLD, key="d3")
    for depth in (2, 1, 0):
        await publish(system, starting(f"d{depth + 1}"), key=f"d{depth}")
    async with system.worker():
        families: list[list[str]] = []
        for _ in range(2):
            ulids = [(await system.call(system.almanac.start, "d0")).ulid]
            for _ in range(3):
                ulids.append(await _one_child(system, ulids[-1]))
            families.append(ulids)
        down, up = families
        await system.call(system.almanac.cancel, down[0])
        await system.call(system.almanac.cancel, up[-1])
        ended = [[await system.ended(ulid) for ulid in ulids] for ulids in families]
    assert [view.status for view in ended[0]] == ["cancelled"] * 4
    codes = [None if view.failure is None else view.failure.code for view in ended[0]]
    assert codes[1:] == ["cancelled_by_parent"] * 3
    assert [view.status for view in ended[1]] == ["failed", "failed", "failed", "cancelled"]


async def _one_child(system: System, ulid: str) -> str:
    async def is_there() -> None:
        assert len(await children(system, ulid)) == 1

    await eventually_async(is_there)
    return str((await children(system, ulid))[0].ulid)


async def test_a_child_that_was_never_begun_is_cancelled_while_temporal_is_down(
    system: System, stack: Stack
) -> None:
    await publish(system, HOLD, key="child")
    await publish(system, starting("child"), key="parent")
    async with (
        system.worker(),
        open_runtime(str(system.settings.database_url), system.settings) as runtime,
    ):
        assert stack.temporal is not None
        await asyncio.to_thread(stack.temporal.stop)
        try:
            started = await system.call(system.almanac.start, "parent")
            await runtime.finish(runtime.process(), started.ulid)
            (child,) = await children(system, started.ulid)
            assert child.status == "pending"
            await system.call(system.almanac.cancel, started.ulid)

            async def cancelled() -> None:
                for ulid in (started.ulid, child.ulid):
                    view = await system.call(system.almanac.show, ulid)
                    assert view.status == "cancelled"

            await eventually_async(cancelled, 40)
        finally:
            await asyncio.to_thread(stack.temporal.start)


async def test_an_instance_is_waited_for_by_one_that_did_not_start_it(system: System) -> None:
    await publish(system, HOLD, ending("held"), key="slow")
    watching = {"id": "all", "type": "wait_for", "config": {"instances": "${ trigger.it }"}}
    await publish(
        system, watching, ending("${ steps.all.output.instances[0].output }"), key="watcher"
    )
    async with system.worker():
        slow = await system.call(system.almanac.start, "slow")
        watcher = await system.call(system.almanac.start, "watcher", {"it": slow.ulid})

        async def waits() -> None:
            view = await system.call(system.almanac.show, watcher.ulid)
            assert view.status == "waiting"

        await eventually_async(waits)
        await system.call(system.almanac.signal, slow.ulid, "go")
        view = await system.ended(watcher.ulid)
    assert (view.status, view.steps[-1].output) == ("completed", "held")
