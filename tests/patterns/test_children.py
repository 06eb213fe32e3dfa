"""Instances that start others: let go, on demand, counted as they end, of their own kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ulid import ULID

from tests.patterns.documents import (
    decide,
    do,
    document,
    end,
    for_each,
    put,
    start_workflow,
    task,
    wait,
    when,
)

if TYPE_CHECKING:
    from tests.patterns.driving import Driver


def publish_work(driver: Driver) -> str:
    """Publishes an instance of its own that ends when somebody says so."""
    nodes = [*task("work"), end("end", output="${ trigger.n }")]
    key = f"work-{ULID()}".lower()
    return driver.publish(document(key, *nodes, edges=["trigger work end"]))


async def done(driver: Driver, *children: int) -> None:
    """Ends children, by their place in the order in which they were started."""
    ulids = await driver.children()
    for child in children:
        await driver.signal("work", to=ulids[child])


async def statuses(driver: Driver) -> list[str]:
    return [await driver.status(child) for child in await driver.children()]


async def test_wcp_12_instances_without_synchronization(driver: Driver) -> None:
    each: dict[str, Any] = {"items": "${ trigger.items }", "input": {"n": "${ item }"}}
    letting_go = document(
        "without-synchronization",
        start_workflow("begin", publish_work(driver), wait=False, **each),
        *do("next"),
        edges=["trigger begin next"],
    )
    await driver.start(letting_go, {"items": [1, 2, 3]})
    assert await driver.told() == "trigger begin next = completed"
    assert await statuses(driver) == ["waiting"] * 3, "nobody waits for them, nobody stops them"
    await done(driver, 1, 0, 2)
    assert await statuses(driver) == ["completed"] * 3


async def test_wcp_15_instances_not_known_beforehand(driver: Driver) -> None:
    on_demand = document(
        "on-demand",
        put("none", begun=[]),
        wait("ask", signals=["more", "close"], mode="any"),
        start_workflow(
            "begin",
            publish_work(driver),
            wait=False,
            input={"n": "${ steps.ask.output.payload.n }"},
        ),
        put("keep", begun="${ state.begun + [steps.begin.output.ulid] }"),
        {"id": "all", "type": "wait_for", "config": {"instances": "${ state.begun }"}},
        *do("next", input={"value": "${ steps.all.output.instances.map(i, i.output) }"}),
        edges=[
            "trigger none ask",
            when("ask", {"field": "steps.ask.output.signal", "op": "eq", "value": "more"}, "begin"),
            "ask all next",
            "begin keep ask",
        ],
    )
    await driver.start(on_demand)
    await driver.signal("more", {"n": 1})
    await done(driver, 0)
    await driver.signal("more", {"n": 2})
    await driver.signal("more", {"n": 3})
    told = "trigger none ask begin keep ask begin keep ask begin keep"
    assert await driver.told() == f"{told} = waiting", "more may come although some have ended"
    await driver.signal("close")
    await done(driver, 2)
    assert await driver.told() == f"{told} ask = waiting", "all that were begun are waited for"
    await done(driver, 1)
    assert await driver.told() == f"{told} ask all next = completed"
    assert await driver.output("next") == [1, 2, 3]


async def test_wcp_22_recursion(driver: Driver) -> None:
    key = f"recursion-{ULID()}".lower()
    factorial = document(
        key,
        decide("small"),
        start_workflow("below", key, input={"n": "${ trigger.n - 1 }"}),
        end("one", output=1),
        end("times", output="${ trigger.n * steps.below.output.output }"),
        edges=["trigger small", when("small", "trigger.n <= 1", "one"), "small below times"],
    )
    await driver.start_again(driver.publish(factorial), {"n": 4})
    assert await driver.told() == "trigger small below times = completed"
    assert await driver.output("times") == 24
    told = [await driver.told(child) for child in await driver.children()]
    assert told == ["trigger small below times = completed"] * 2 + ["trigger small one = completed"]
    deep = await driver.start_again(key, {"n": 100})
    assert await driver.status(deep) == "failed", "limits.max_depth bounds it"


async def test_wcp_36_dynamic_partial_join_for_instances(driver: Driver) -> None:
    """Three may be under way at a time; the second one that ends is enough."""
    joining = document(
        "dynamic-partial-join",
        put("none", done=[]),
        for_each("slots", [1, 2, 3], "add", mode="first_success"),
        wait("add", signal="add"),
        start_workflow(
            "begin", publish_work(driver), wait=False, input={"n": "${ steps.add.output.n }"}
        ),
        {
            "id": "watch",
            "type": "wait_for",
            "config": {"instances": "${ steps.begin.output.ulid }"},
        },
        put("note", done="${ state.done + [steps.begin.output.ulid] }"),
        *do("enough", "next"),
        edges=[
            "trigger none slots next",
            "add begin watch note",
            when("note", "state.done.size() >= trigger.needed", "enough"),
            "note add",
        ],
    )
    await driver.start(joining, {"needed": 2})
    for n in (1, 2):
        await driver.signal("add", {"n": n})
    await done(driver, 1)
    told = "trigger none add begin add begin watch note"
    assert await driver.told() == f"{told} = waiting", "one is too few, and more may be added"
    await driver.signal("add", {"n": 3})
    await driver.signal("add", {"n": 4})
    await done(driver, 3)
    told += " add begin add begin watch note enough slots next"
    assert await driver.told() == f"{told} = completed"
    assert await statuses(driver) == ["waiting", "completed", "waiting", "completed"]
    await done(driver, 0, 2)
    assert await statuses(driver) == ["completed"] * 4, "the others go on, and change nothing"
    assert await driver.runs("next") == ["succeeded"]
