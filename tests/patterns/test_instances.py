"""Several instances of one task, and lines that are split and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.patterns.documents import do, document, for_each, put, wait, when

if TYPE_CHECKING:
    from tests.patterns.driving import Driver


def each(key: str, items: Any, **join: Any) -> dict[str, Any]:
    return document(
        key,
        for_each("each", items, "work", **join),
        wait("work", signal="work", match={"item": "${ item }"}),
        *do("sign", "next"),
        edges=["trigger each next", "work sign"],
    )


async def work(driver: Driver, *items: Any) -> None:
    for item in items:
        await driver.signal("work", {"item": item})


async def test_wcp_13_instances_known_at_design_time(driver: Driver) -> None:
    await driver.start(each("design-time", ["one", "two", "three"]))
    assert await driver.runs("work") == ["waiting"] * 3
    await work(driver, "two", "three")
    assert await driver.told() == "trigger work sign work sign = waiting"
    await work(driver, "one")
    assert await driver.told() == "trigger work sign work sign work sign each next = completed"


async def test_wcp_14_instances_known_at_run_time(driver: Driver) -> None:
    document = each("run-time", "${ trigger.rows.map(row, row.id) }")
    await driver.start(document, {"rows": [{"id": 7}, {"id": 9}]})
    assert await driver.runs("work") == ["waiting"] * 2
    await work(driver, 9, 7)
    assert await driver.told() == "trigger work sign work sign each next = completed"
    none = await driver.start(document, {"rows": []})
    assert await driver.told(none) == "trigger each next = completed"


def nth_of(needed: int) -> dict[str, Any]:
    place = {"field": f"state.done.{needed - 1}", "op": "eq", "value": "${ item }"}
    return document(
        "partial-join-of-instances",
        put("none", done=[]),
        for_each("each", "${ trigger.items }", "work"),
        wait("work", signal="work", match={"item": "${ item }"}),
        put("note", done="${ state.done + [item] }"),
        *do("next", "rest"),
        edges=["trigger none each rest", "work note", when("note", place, "next")],
    )


async def test_wcp_34_static_partial_join_for_instances(driver: Driver) -> None:
    await driver.start(nth_of(2), {"items": [1, 2, 3, 4]})
    await work(driver, 4)
    assert await driver.runs("next") == []
    await work(driver, 2)
    told = "trigger none work note work note next"
    assert await driver.told() == f"{told} = waiting"
    assert sorted(await driver.runs("work")) == ["succeeded"] * 2 + ["waiting"] * 2
    await work(driver, 1, 3)
    assert await driver.told() == f"{told} work note work note each rest = completed"
    assert await driver.runs("next") == ["succeeded"], "those that come later change nothing"


async def test_wcp_35_cancelling_partial_join_for_instances(driver: Driver) -> None:
    await driver.start(each("quorum", [1, 2, 3, 4], mode="quorum", quorum=2))
    await work(driver, 3)
    assert await driver.told() == "trigger work sign = waiting"
    await work(driver, 1)
    assert await driver.told() == "trigger work sign work sign each next = completed"
    assert await driver.runs("work") == ["succeeded", "cancelled", "succeeded", "cancelled"]
    assert (await driver.output("each"))["cancelled"] == 2


async def test_wcp_42_thread_split(driver: Driver) -> None:
    split = document(
        "thread-split",
        for_each("split", [1, 2, 3], "a"),
        *do("a"),
        wait("b", signal="b", match={"thread": "${ item }"}),
        *do("c"),
        edges=["trigger split", "a b c"],
    )
    await driver.start(split)
    assert await driver.told() == "trigger a a a = waiting", "three threads through one branch"
    for thread in (3, 1):
        await driver.signal("b", {"thread": thread})
    assert await driver.told() == "trigger a a a b c b c = waiting", "each goes its own pace"
    await driver.signal("b", {"thread": 2})
    assert await driver.told() == "trigger a a a b c b c b c split = completed"


async def test_wcp_41_thread_merge(driver: Driver) -> None:
    await driver.start(each("thread-merge", [1, 2, 3]))
    await work(driver, 1, 2)
    assert await driver.runs("next") == []
    await work(driver, 3)
    assert await driver.runs("each") == ["succeeded"]
    assert await driver.runs("next") == ["succeeded"], "three threads went in, one comes out"
    assert await driver.status() == "completed"
