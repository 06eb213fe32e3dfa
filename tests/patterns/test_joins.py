"""Joins that pass before all lines have come, beside lines that go on or are cancelled.

Lines that go on beside a join count themselves in: a ``set`` appends the line's name to a list and
is left in one decision, so each line has a place of its own, and only the line at the place that
the join asks for leads on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.patterns.documents import do, document, for_each, parallel, put, repeat, task, wait, when

if TYPE_CHECKING:
    from tests.patterns.driving import Driver


def partial_join(key: str, needed: int) -> dict[str, Any]:
    """Of three lines, the one that is the ``needed``-th to arrive leads on."""
    place = needed - 1
    return document(
        key,
        put("none", arrived=[]),
        for_each("lines", ["a", "b", "c"], "work"),
        wait("work", signal="work", match={"line": "${ item }"}),
        put("arrive", arrived="${ state.arrived + [item] }"),
        *do("next", "rest"),
        edges=[
            "trigger none lines rest",
            "work arrive",
            when(
                "arrive",
                {"field": f"state.arrived.{place}", "op": "eq", "value": "${ item }"},
                "next",
            ),
        ],
    )


async def test_wcp_09_structured_discriminator(driver: Driver) -> None:
    await driver.start(partial_join("discriminator", 1))
    await driver.signal("work", {"line": "b"})
    assert await driver.told() == "trigger none work arrive next = waiting", "the first one passes"
    assert await driver.runs("work") == ["waiting", "succeeded", "waiting"], "the others go on"
    await driver.signal("work", {"line": "c"})
    await driver.signal("work", {"line": "a"})
    told = "trigger none work arrive next work arrive work arrive lines rest = completed"
    assert await driver.told() == told
    assert await driver.runs("next") == ["succeeded"], "no later line passes"


async def test_of_lines_that_arrive_at_once_one_alone_has_the_place(driver: Driver) -> None:
    place = {"field": "state.arrived.1", "op": "eq", "value": "${ item }"}
    at_once = document(
        "at-once",
        put("none", arrived=[]),
        for_each("lines", list(range(100)), "arrive", concurrency=100),
        put("arrive", arrived="${ state.arrived + [item] }"),
        *do("next"),
        edges=["trigger none lines", when("arrive", place, "next")],
    )
    await driver.start(at_once)
    assert await driver.status() == "completed"
    assert len(await driver.runs("arrive")) == 100
    assert await driver.runs("next") == ["succeeded"]


async def test_wcp_30_structured_partial_join(driver: Driver) -> None:
    await driver.start(partial_join("partial-join", 2))
    await driver.signal("work", {"line": "c"})
    assert await driver.told() == "trigger none work arrive = waiting", "one of three is too few"
    await driver.signal("work", {"line": "a"})
    assert await driver.told() == "trigger none work arrive work arrive next = waiting"
    await driver.signal("work", {"line": "b"})
    assert (await driver.told()).endswith("work arrive next work arrive lines rest = completed")
    assert await driver.runs("next") == ["succeeded"]


def blocking_join(key: str, needed: int) -> dict[str, Any]:
    """The same, round after round: a line of the next round begins when all of this have come."""
    place = needed - 1
    return document(
        key,
        repeat("rounds", "none", until="state.rounds == 2"),
        put("none", arrived=[], rounds="${ has(state.rounds) ? state.rounds + 1 : 1 }"),
        for_each("lines", ["a", "b", "c"], "work"),
        wait("work", signal="work", match={"line": "${ item }"}),
        put("arrive", arrived="${ state.arrived + [item] }"),
        *do("next"),
        edges=[
            "trigger rounds",
            "none lines",
            "work arrive",
            when(
                "arrive",
                {"field": f"state.arrived.{place}", "op": "eq", "value": "${ item }"},
                "next",
            ),
        ],
    )


async def test_wcp_28_blocking_discriminator(driver: Driver) -> None:
    await driver.start(blocking_join("blocking-discriminator", 1))
    for line in ("a", "a", "b"):
        await driver.signal("work", {"line": line})
    told = "trigger none work arrive next work arrive"
    assert await driver.told() == f"{told} = waiting", "the second a is held until the reset"
    assert await driver.runs("next") == ["succeeded"]
    await driver.signal("work", {"line": "c"})
    told += " work arrive lines none work arrive next"
    assert await driver.told() == f"{told} = waiting", "the reset lets it in, first of its round"
    await driver.signal("work", {"line": "b"})
    await driver.signal("work", {"line": "c"})
    told += " work arrive work arrive lines rounds"
    assert await driver.told() == f"{told} = completed"


async def test_wcp_31_blocking_partial_join(driver: Driver) -> None:
    await driver.start(blocking_join("blocking-partial-join", 2))
    for line in ("a", "a", "a"):
        await driver.signal("work", {"line": line})
    assert await driver.runs("next") == [], "one line cannot stand for two"
    await driver.signal("work", {"line": "b"})
    assert await driver.runs("next") == ["succeeded"]
    await driver.signal("work", {"line": "b"})
    assert await driver.runs("next") == ["succeeded"], "c of the first round is still to come"
    await driver.signal("work", {"line": "c"})
    told = "trigger none work arrive work arrive next work arrive lines"
    assert await driver.told() == f"{told} none work work arrive arrive next = waiting"


def cancelling_join(key: str, **join: Any) -> dict[str, Any]:
    return document(
        key,
        parallel("join", "a b c", **join),
        *task("a", "b", "c"),
        *do("after-a", "next"),
        edges=["trigger join next", "a after-a"],
    )


async def test_wcp_29_cancelling_discriminator(driver: Driver) -> None:
    await driver.start(cancelling_join("cancelling-discriminator", join="any"))
    await driver.signal("b")
    assert await driver.told() == "trigger b join next = completed"
    assert [await driver.runs(node) for node in "abc"] == [
        ["cancelled"],
        ["succeeded"],
        ["cancelled"],
    ]
    assert await driver.runs("after-a") == [], "what is cancelled does not go on"


async def test_wcp_32_cancelling_partial_join(driver: Driver) -> None:
    await driver.start(cancelling_join("cancelling-partial-join", join="quorum", quorum=2))
    await driver.signal("c")
    assert await driver.told() == "trigger c = waiting"
    await driver.signal("a")
    assert await driver.told() == "trigger c a after-a join next = completed"
    assert await driver.runs("b") == ["cancelled"]
