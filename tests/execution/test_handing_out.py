from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from adapter.execution import handing_out
from adapter.execution.handing_out import AT_ONCE
from tests.driving.turns import take_turn
from tests.execution.runtime import action, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime

ITEMS = 4 * AT_ONCE


def beside(items: int) -> dict[str, Any]:
    """An inline handler, beside items of which each becomes a queued step after an inline one."""
    queued = action("q", "queued")
    queued["config"]["queue"] = "gpu"
    each = {"items": "${trigger}", "body": "b", "concurrency": items}
    return graph(
        {"id": "fan", "type": "parallel", "config": {"branches": {"one": "s", "all": "e"}}},
        action("s", "slow"),
        {"id": "e", "type": "for_each", "config": each},
        action("b", "brief"),
        queued,
        edges=[("trigger", "fan"), ("b", "q")],
    )


async def handed_out(runtime: Runtime, items: int, hand_out: Any, until: threading.Event) -> Any:
    """One turn in which a handler ends when ``until`` is set; its result, and the handler's row."""

    @runtime.registry.action("queued", timeout=60)
    def queued() -> None: ...

    @runtime.registry.action("brief")
    async def brief() -> None:
        await asyncio.sleep(0.05)

    @runtime.registry.action("slow", timeout=2)
    def slow() -> bool:
        return until.wait(1.9)

    ulid = await runtime.begun(beside(items), list(range(items)))
    process = runtime.process()
    process.hand_out = hand_out
    turned = await take_turn(process, ulid, activities=True)
    return turned, await runtime.step(ulid, "s")


async def test_steps_are_handed_out_while_a_handler_runs_and_begin_no_second_time(
    runtime: Runtime,
) -> None:
    steps: list[str] = []
    enough = threading.Event()

    async def hand_out(ulid: str, step: str, queue: str) -> bool:
        assert queue == "gpu"
        steps.append(step)
        if len(steps) == AT_ONCE:
            enough.set()
        return True

    turned, slow = await handed_out(runtime, AT_ONCE, hand_out, enough)
    assert slow["output"] is True
    assert len(set(steps)) == len(steps) == AT_ONCE
    # The driver hears of them all the same, and sees to those that nobody took in the end.
    assert {queued.step for queued in turned.queued} == set(steps)


async def test_a_handler_s_result_does_not_wait_for_hand_outs_that_hang(runtime: Runtime) -> None:
    asked = threading.Event()

    async def hand_out(ulid: str, step: str, queue: str) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    async with asyncio.timeout(30):
        _, slow = await handed_out(runtime, ITEMS, hand_out, asked)
    assert slow["output"] is True


@pytest.mark.parametrize("trouble", [False, OSError("gone")], ids=["refused", "broken"])
async def test_nothing_more_is_handed_out_once_the_engine_has_trouble(
    runtime: Runtime, trouble: bool | OSError
) -> None:
    asked: list[str] = []
    over = threading.Event()

    async def hand_out(ulid: str, step: str, queue: str) -> bool:
        asked.append(step)
        if isinstance(trouble, OSError):
            raise trouble
        return trouble

    turned, _ = await handed_out(runtime, ITEMS, hand_out, over)
    assert len(asked) == AT_ONCE
    assert len(turned.queued) == ITEMS


async def test_one_turn_hands_out_only_so_many(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_out, "MOST", AT_ONCE + 1)
    asked: list[str] = []
    over = threading.Event()

    async def hand_out(ulid: str, step: str, queue: str) -> bool:
        asked.append(step)
        return True

    turned, _ = await handed_out(runtime, ITEMS, hand_out, over)
    assert len(set(asked)) == len(asked) == AT_ONCE + 1
    assert len(turned.queued) == ITEMS
