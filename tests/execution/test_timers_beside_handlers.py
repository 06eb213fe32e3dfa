from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.execution.runtime import action, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime

DELAY = {"id": "d", "type": "delay", "config": {"for": "PT0.2S"}}
WAIT = {"id": "d", "type": "wait", "config": {"event": "nobody emits it", "timeout": "PT0.2S"}}


@pytest.mark.parametrize("timer", [DELAY, WAIT], ids=["delay", "timeout"])
async def test_a13_a_timer_does_not_wait_for_a_handler_of_another_branch(
    runtime: Runtime, timer: dict[str, Any]
) -> None:
    behind_the_timer = asyncio.Event()
    loop = asyncio.get_running_loop()

    @runtime.registry.action("slow", timeout=2)
    async def slow() -> bool:
        # It ends only when the other branch has gone on.
        for _ in range(200):
            if behind_the_timer.is_set():
                return True
            await asyncio.sleep(0.01)
        return False

    @runtime.registry.action("quick")
    async def quick() -> None:
        loop.call_soon_threadsafe(behind_the_timer.set)

    document = graph(
        {
            "id": "fan",
            "type": "parallel",
            "config": {"branches": {"slow": "s", "timer": "d"}},
        },
        action("s", "slow"),
        timer,
        action("q", "quick"),
        edges=[("trigger", "fan"), {"from": "d", "to": "q"}],
    )
    ulid = await runtime.begun(document)
    await runtime.drive(runtime.process(), ulid)

    assert (await runtime.step(ulid, "s"))["output"] is True
    assert (await runtime.instance(ulid))["status"] == "completed"


async def test_a13_a_back_off_does_not_wait_for_a_handler_of_another_branch(
    runtime: Runtime,
) -> None:
    tried_again = asyncio.Event()
    loop = asyncio.get_running_loop()

    @runtime.registry.action("slow", timeout=2)
    async def slow() -> bool:
        for _ in range(200):
            if tried_again.is_set():
                return True
            await asyncio.sleep(0.01)
        return False

    @runtime.registry.action("flaky")
    async def flaky(ctx: Any) -> None:
        if ctx.step.attempt == 1:
            raise ValueError("not yet")
        loop.call_soon_threadsafe(tried_again.set)

    document = graph(
        {"id": "fan", "type": "parallel", "config": {"branches": {"slow": "s", "flaky": "f"}}},
        action("s", "slow"),
        action("f", "flaky", retry={"max_attempts": 2, "initial": "PT0.2S"}),
        edges=[("trigger", "fan")],
    )
    ulid = await runtime.begun(document)
    await runtime.drive(runtime.process(), ulid)

    assert (await runtime.step(ulid, "s"))["output"] is True
