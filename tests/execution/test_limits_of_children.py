"""Children that are not started: too many, large or deep, or by an append that was refused."""

from __future__ import annotations

from typing import Any

import pytest
from ulid import ULID

from adapter.execution.cache import Folded
from adapter.execution.instance import Instance, Superseded
from adapter.interpreter.events import Tick
from adapter.settings import Limits
from tests.execution.families import HOLD, Family, ending, starting


async def test_inputs_that_do_not_fit_into_one_append_fail_the_step(family: Family) -> None:
    await family.publish(ending(1), name="child")
    items = {"id": "make", "type": "set", "config": {"values": {"text": "${ trigger.text }"}}}
    start = starting(
        "child", items="${ trigger.items }", input={"a": "${ state.text }", "n": "${ item }"}
    )
    await family.publish(items, start, name="parent")
    ulid = await family.start("parent", {"text": "x" * 200_000, "items": list(range(100))})
    await family.settle(family.process(), ulid)
    assert (await family.runtime.instance(ulid))["failure_code"] == "expression_failed"
    assert await family.children(ulid) == []


async def test_limits_of_depth_count_and_items_have_codes_of_their_own(family: Family) -> None:
    family.runtime.limit(Limits(max_depth=2, max_started=3, max_items=4))
    await family.publish(ending(1), name="leaf")
    await family.publish(starting("loop"), name="loop")
    for name, count in (("three", 3), ("four", 4), ("five", 5)):
        await family.publish(starting("leaf", items=list(range(count))), name=name)
    twice = [starting("leaf", items=[1, 2]), starting("leaf", "again", items=[1, 2])]
    await family.publish(*twice, name="twice")
    deps = family.process()
    codes: dict[str, Any] = {}
    for name in ("three", "four", "five", "twice", "loop"):
        ulid = await family.start(name)
        await family.settle(deps, ulid)
        codes[name] = (await family.runtime.instance(ulid))["failure_code"]
    assert codes == {
        "three": None,
        "four": "max_started_exceeded",
        "five": "max_items_exceeded",
        "twice": "max_started_exceeded",
        "loop": "child_failed",
    }
    deepest = await family.runtime.pool.fetchrow(
        "SELECT depth, failure_code FROM workflow_instances i JOIN workflow_definitions d"
        " ON d.id = i.definition_id WHERE d.key = $1 ORDER BY depth DESC LIMIT 1",
        family.key("loop"),
    )
    assert tuple(deepest) == (2, "max_depth_exceeded")


async def test_an_append_that_is_refused_starts_nobody(family: Family) -> None:
    await family.publish(HOLD, name="child")
    await family.publish(starting("child"), name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    stale = Instance(deps, ulid, str(ULID()), Folded())
    async with family.runtime.pool.acquire() as connection:
        inbox = await stale.load(connection)
        await family.turns(deps, ulid)
        with pytest.raises(Superseded):
            await stale.advance(connection, [*inbox, Tick()], begin=True)
    assert len(await family.children(ulid)) == 1
