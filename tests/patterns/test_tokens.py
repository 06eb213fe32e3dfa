"""Joins and routing by signals that an instance sends to itself: kept until somebody takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.patterns.documents import (
    decide,
    do,
    document,
    on,
    parallel,
    repeat,
    task,
    tell,
    wait,
    when,
)

if TYPE_CHECKING:
    from tests.patterns.driving import Driver


async def test_wcp_33_generalised_and_join(driver: Driver) -> None:
    join = document(
        "generalised-and-join",
        repeat("firings", "join", until="steps.next.output == 'last'"),
        wait("join", signals=["a", "b"]),
        *do("next", input={"value": "${ steps.join.output.b.note }"}),
        edges=["trigger firings", "join next"],
    )
    await driver.start(join)
    for _ in range(3):
        await driver.signal("a")
    assert await driver.runs("next") == [], "three of a make no b"
    await driver.signal("b", {"note": "first"})
    await driver.signal("b", {"note": "second"})
    told = "trigger join next join next"
    assert await driver.told() == f"{told} = waiting", "what came too early counted for the next"
    await driver.signal("b", {"note": "last"})
    assert await driver.told() == f"{told} join next firings = completed"


async def test_wcp_37_local_synchronizing_merge(driver: Driver) -> None:
    """A split of three lines, of which b and c meet before they meet a: not a nest of blocks."""
    merge = document(
        "local-synchronizing-merge",
        parallel("lines", "a b c inner outer"),
        *[decide(name, on=f"${{ '{name}' in trigger.wanted }}") for name in "abc"],
        *task("do-a", "do-b", "do-c"),
        *[
            tell(f"{name}-{told}", signal, payload={"live": told == "came"})
            for name, signal in (("a", "a"), ("b", "b"), ("c", "c"), ("inner", "inner"))
            for told in ("came", "skipped")
        ],
        wait("inner", signals=["b", "c"]),
        *do("join-inner", "join-outer"),
        wait("outer", signals=["a", "inner"]),
        *do("after", "nothing"),
        edges=[
            "trigger lines after",
            *[on(name, "true", f"do-{name}") for name in "abc"],
            *[f"do-{name} {name}-came" for name in "abc"],
            *[f"{name} {name}-skipped" for name in "abc"],
            when("inner", "steps.inner.output.b.live || steps.inner.output.c.live", "join-inner"),
            "inner inner-skipped",
            "join-inner inner-came",
            when(
                "outer", "steps.outer.output.a.live || steps.outer.output.inner.live", "join-outer"
            ),
            "outer nothing",
        ],
    )
    await driver.start(merge, {"wanted": ["a", "c"]})
    await driver.signal("do-a")
    assert await driver.runs("join-outer") == [], "c is still under way"
    await driver.signal("do-c")
    trace = await driver.trace()
    order = ["do-a", "do-c", "join-inner", "join-outer", "after"]
    assert [node for node in trace if node in order] == order
    assert await driver.status() == "completed"
    alone = await driver.start(merge, {"wanted": ["a"]})
    await driver.signal("do-a", to=alone)
    trace = await driver.trace(alone)
    assert [node for node in trace if node in order] == ["do-a", "join-outer", "after"]


async def test_wcp_39_critical_section(driver: Driver) -> None:
    section = document(
        "critical-section",
        tell("free", "key"),
        parallel("lines", "enter-a enter-b"),
        wait("enter-a", signal="key"),
        wait("enter-b", signal="key"),
        *task("a1", "a2", "b1"),
        tell("leave-a", "key"),
        tell("leave-b", "key"),
        *do("after-a"),
        edges=[
            "trigger free lines",
            "enter-a a1 a2 leave-a after-a",
            "enter-b b1 leave-b",
        ],
    )
    await driver.start(section)
    told = "trigger free enter-a"
    assert await driver.told() == f"{told} = waiting"
    await driver.signals("b1", "a1")
    assert await driver.told() == f"{told} a1 = waiting", "b stays outside while a is inside"
    assert await driver.runs("b1") == []
    await driver.signal("a2")
    trace = await driver.trace()
    assert await driver.status() == "completed"
    assert trace.index("leave-a") < trace.index("enter-b") < trace.index("b1")
    assert sorted(trace[4:]) == ["a2", "after-a", "b1", "enter-b", "leave-a", "leave-b", "lines"]
