"""Work that is withdrawn: a step, a part of the graph, all instances of a task, the whole case."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.patterns.documents import (
    do,
    document,
    for_each,
    parallel,
    put,
    task,
    wait,
    when,
)

if TYPE_CHECKING:
    from tests.patterns.driving import Driver

WITHDRAWN = {"field": "steps.either.output.branches.withdraw.outcome", "op": "eq"}


def either(key: str, *nodes: dict[str, Any], first: str, edges: list[Any]) -> dict[str, Any]:
    """Work beside a wait for its withdrawal: whichever comes first cancels the other."""
    return document(
        key,
        parallel("either", f"{first} withdraw", join="any"),
        *task("withdraw"),
        *nodes,
        *do("gone", "next"),
        edges=["trigger either", when("either", {**WITHDRAWN, "value": "success"}, "gone"), *edges],
    )


async def test_wcp_19_cancel_task(driver: Driver) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @driver.runtime.registry.action("endless")
    async def endless() -> None:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.Event().wait()

    driver.process = driver.runtime.process()
    work = {"id": "work", "type": "action", "config": {"action": "endless"}, "timeout": "PT1H"}
    waiting = task("work")[0]
    for node in (work, waiting):
        begun.clear()
        driver.ulids.clear()
        starting = asyncio.create_task(
            driver.start(either("cancel-task", node, first="work", edges=["either next"]))
        )
        if node is work:
            await begun.wait()
            driver.almanac.signal(driver.ulids[0], "withdraw")
        await starting
        if node is waiting:
            await driver.signal("withdraw")
        assert await driver.told() == "trigger withdraw either gone = completed"
        assert await driver.runs("work") == ["cancelled"], "running or not"
        assert await driver.runs("next") == []
    driver.ulids.clear()
    await driver.start(either("cancel-task", waiting, first="work", edges=["either next"]))
    await driver.signal("work")
    assert await driver.told() == "trigger work either next = completed"
    assert await driver.runs("withdraw") == ["cancelled"]


async def test_wcp_20_cancel_case(driver: Driver) -> None:
    case = document(
        "cancel-case",
        parallel("all", "a b"),
        *task("a", "b"),
        *do("after"),
        edges=["trigger all after"],
    )
    await driver.start(case)
    await driver.signal("a")
    receipt = driver.almanac.cancel(driver.ulids[0], "withdrawn by the owner")
    await driver.settle()
    assert driver.almanac.wait_applied(receipt).status == "done"
    assert await driver.told() == "trigger a = cancelled"
    assert [await driver.runs(node) for node in ("all", "b", "after")] == [
        ["cancelled"],
        ["cancelled"],
        [],
    ]


async def test_wcp_25_cancel_region(driver: Driver) -> None:
    region = either(
        "cancel-region",
        *task("draft", "check", "sign"),
        parallel("both", "check sign"),
        *do("filed"),
        first="draft",
        edges=["draft both filed", "either next"],
    )
    await driver.start(region)
    await driver.signals("draft", "check", "withdraw")
    assert await driver.told() == "trigger draft check withdraw either gone = completed"
    told = [await driver.runs(node) for node in ("draft", "check", "sign", "both", "filed")]
    assert told == [["succeeded"], ["succeeded"], ["cancelled"], ["cancelled"], []]
    driver.ulids.clear()
    await driver.start(region)
    await driver.signals("draft", "sign", "check")
    assert await driver.told() == "trigger draft sign check both filed either next = completed"


def instances(key: str, *edges: Any) -> dict[str, Any]:
    return either(
        key,
        put("none", done=[]),
        for_each("each", "${ trigger.items }", "work"),
        wait("work", signal="work", match={"item": "${ item }"}),
        put("note", done="${ state.done + [item] }"),
        first="none",
        edges=["none each", "work note", *edges],
    )


async def test_wcp_26_cancel_multiple_instance_activity(driver: Driver) -> None:
    await driver.start(instances("cancel-instances", "either next"), {"items": [1, 2, 3]})
    await driver.signal("work", {"item": 2})
    await driver.signal("withdraw")
    assert await driver.told() == "trigger none work note withdraw either gone = completed"
    assert await driver.runs("work") == ["cancelled", "succeeded", "cancelled"]
    assert await driver.runs("next") == []


async def test_wcp_27_complete_multiple_instance_activity(driver: Driver) -> None:
    complete = document(
        "complete-instances",
        put("none", done=[]),
        parallel("either", "each enough", join="any"),
        for_each("each", "${ trigger.items }", "work"),
        wait("work", signal="work", match={"item": "${ item }"}),
        put("note", done="${ state.done + [item] }"),
        *task("enough"),
        *do("next", input={"value": "${ state.done }"}),
        edges=["trigger none either next", "work note"],
    )
    await driver.start(complete, {"items": [1, 2, 3]})
    await driver.signal("work", {"item": 3})
    await driver.signal("work", {"item": 1})
    await driver.signal("enough")
    assert await driver.told() == "trigger none work note work note enough either next = completed"
    assert await driver.output("next") == [3, 1], "what was done counts"
    assert sorted(await driver.runs("work")) == ["cancelled", "succeeded", "succeeded"]
