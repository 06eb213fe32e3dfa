"""Children of what is cancelled, and parents of what was."""

from __future__ import annotations

from typing import Any

from tests.execution.families import HOLD, Family, starting
from tests.execution.runtime import graph


async def _three_deep(family: Family) -> list[str]:
    """Four instances that wait for each other, each the next one's parent."""
    await family.publish(HOLD, name="d3")
    for depth in (2, 1, 0):
        await family.publish(starting(f"d{depth + 1}"), name=f"d{depth}")
    ulids = [await family.start("d0")]
    await family.settle(family.process(), ulids[0])
    for _ in range(3):
        ulids.append((await family.children(ulids[-1]))[0]["ulid"])
    return ulids


async def test_what_is_let_go_lives_on_when_its_parent_is_cancelled(family: Family) -> None:
    await family.publish(HOLD, name="child")
    await family.publish(starting("child", wait=False), {**HOLD, "id": "own"}, name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    await family.cancel(ulid)
    await family.settle(deps, ulid)
    assert await family.status(ulid) == "cancelled"
    assert await family.statuses(ulid) == ["waiting"]


async def test_a_cancel_reaches_children_at_any_depth(family: Family) -> None:
    ulids = await _three_deep(family)
    assert [(await family.runtime.instance(u))["depth"] for u in ulids] == [0, 1, 2, 3]
    await family.cancel(ulids[0])
    await family.settle(family.process(), ulids[0])
    rows = [await family.runtime.instance(ulid) for ulid in ulids]
    assert [row["status"] for row in rows] == ["cancelled"] * 4
    assert [row["failure_code"] for row in rows] == [None, *["cancelled_by_parent"] * 3]
    assert not await family.told(ulids[0])


async def test_a_cancelled_child_fails_those_above_it(family: Family) -> None:
    ulids = await _three_deep(family)
    await family.cancel(ulids[-1])
    await family.settle(family.process(), ulids[0])
    rows = [await family.runtime.instance(ulid) for ulid in ulids]
    assert [row["status"] for row in rows] == ["failed", "failed", "failed", "cancelled"]
    assert [row["failure_code"] for row in rows] == [*["child_failed"] * 3, None]


async def test_a_child_that_was_never_begun_is_cancelled_with_its_parent(family: Family) -> None:
    await family.publish(HOLD, name="child")
    await family.publish(starting("child"), name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.turns(deps, ulid)
    assert await family.statuses(ulid) == ["pending"]
    await family.cancel(ulid)
    await family.turns(deps, ulid)
    await family.settle(deps, ulid)
    (child,) = await family.children(ulid)
    assert (child["status"], child["failure_code"]) == ("cancelled", "cancelled_by_parent")


async def test_children_that_are_started_and_let_go_in_one_append_are_cancelled(
    family: Family,
) -> None:
    await family.publish(HOLD, name="child")
    values = {"id": "win", "type": "set", "config": {"values": {"n": 1}}}
    race = {
        "id": "race",
        "type": "parallel",
        "config": {"branches": {"a": "call", "b": "win"}, "join": "any"},
    }
    edges: list[Any] = [("trigger", "race")]
    await family.publish_graph(graph(race, starting("child"), values, edges=edges, key="parent"))
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    assert await family.status(ulid) == "completed"
    assert await family.statuses(ulid) == ["cancelled"]
