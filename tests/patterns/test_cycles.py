"""Loops, and how an instance comes to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.patterns.documents import (
    decide,
    do,
    document,
    end,
    on,
    parallel,
    put,
    repeat,
    task,
    when,
)

if TYPE_CHECKING:
    from tests.patterns.driving import Driver


async def test_wcp_10_arbitrary_cycles(driver: Driver) -> None:
    cycles = document(
        "arbitrary-cycles",
        decide("enter", on="${ trigger.at }"),
        *task("a", "b", "c"),
        *do("left-early", "left-late"),
        edges=[
            "trigger enter",
            on("enter", "middle", "b"),
            "enter a b",
            when("b", "steps.b.output.go == 'back'", "a"),
            when("b", "steps.b.output.go == 'out'", "left-early"),
            "b c",
            when("c", "steps.c.output.go == 'back'", "b"),
            "c left-late",
        ],
    )
    await driver.start(cycles, {"at": "middle"})
    for node, go in (("b", "back"), ("a", ""), ("b", "on"), ("c", "back"), ("b", "on"), ("c", "")):
        await driver.signal(node, {"go": go})
    assert await driver.told() == "trigger enter:middle b a b c b c left-late = completed"
    driver.ulids.clear()
    await driver.start(cycles, {"at": "front"})
    await driver.signals("a")
    await driver.signal("b", {"go": "out"})
    assert await driver.told() == "trigger enter:front a b left-early = completed"


async def test_wcp_11_implicit_termination(driver: Driver) -> None:
    implicit = document(
        "implicit-termination",
        parallel("all", "a b"),
        *task("a", "b"),
        *do("after-b"),
        edges=["trigger all", "b after-b"],
    )
    await driver.start(implicit)
    await driver.signal("b")
    assert await driver.told() == "trigger b after-b = waiting", "something is left to do"
    await driver.signal("a")
    assert await driver.told() == "trigger b after-b a all = completed"


async def test_wcp_43_explicit_termination(driver: Driver) -> None:
    explicit = document(
        "explicit-termination",
        parallel("all", "a b"),
        *task("a", "b"),
        *do("after"),
        end("stop", output="stopped"),
        edges=["trigger all after", "b stop"],
    )
    await driver.start(explicit)
    await driver.signal("b")
    assert await driver.told() == "trigger b stop = completed"
    assert await driver.runs("a") == ["cancelled"], "what is left is withdrawn"
    assert await driver.runs("after") == []


async def test_wcp_21_structured_loop(driver: Driver) -> None:
    def loop(**condition: str) -> dict[str, object]:
        return document(
            "structured-loop",
            put("begin", n=0),
            repeat("loop", "work", **condition),
            *do("work"),
            put("count", n="${ state.n + 1 }"),
            *do("next"),
            edges=["trigger begin loop next", "work count"],
        )

    before = await driver.start(loop(**{"while": "state.n < trigger.times"}), {"times": 2})
    assert await driver.told(before) == "trigger begin work count work count loop next = completed"
    never = await driver.start(loop(**{"while": "state.n < trigger.times"}), {"times": 0})
    assert await driver.told(never) == "trigger begin loop next = completed"
    after = await driver.start(loop(until="state.n >= trigger.times"), {"times": 0})
    assert await driver.told(after) == "trigger begin work count loop next = completed"
