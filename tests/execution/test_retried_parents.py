"""Steps with children that are retried: what has been done is not done again."""

from __future__ import annotations

from typing import Any

from adapter.errors import StepError
from tests.execution.families import GO, HOLD, Family, by_trigger, ending, starting
from tests.execution.runtime import action


async def test_a_retry_starts_again_only_what_failed_and_a_retried_child_disturbs_nobody(
    family: Family,
) -> None:
    await family.publish_graph(by_trigger())
    start = starting("child", items=["c", "f"], input={"do": "${ item }"})
    await family.publish(start, name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    first = await family.children(ulid)
    assert await family.status(ulid) == "failed"
    await family.runtime.tell(first[1]["ulid"], "retry", {})
    await family.settle(deps, ulid)
    assert await family.status(ulid) == "failed"
    await family.runtime.tell(ulid, "retry", {})
    await family.settle(deps, ulid)
    again = await family.children(ulid)
    assert [child["status"] for child in again] == ["completed", "failed", "failed"]
    assert len({child["idempotency_digest"] for child in again}) == 3
    assert [r["attempt"] for r in await family.runtime.rows("step_runs", ulid)][1:] == [1, 2]


async def test_a_retry_takes_up_a_child_that_was_mended_meanwhile(family: Family) -> None:
    name, broken = family.key("mended"), [True]

    @family.runtime.registry.action(name)
    def mended(n: int) -> int:
        if n == 1 and broken[0]:
            raise StepError("not_yet", "not yet", retryable=False)
        return n

    await family.publish(
        action("try", name, input={"n": "${ trigger.n }"}), ending("${ trigger.n }"), name="child"
    )
    start = starting("child", items=[1, 2], input={"n": "${ item }"}, on_failure="finish")
    await family.publish(start, name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    assert await family.status(ulid) == "failed"
    first, _ = await family.children(ulid)
    broken[0] = False
    await family.runtime.tell(first["ulid"], "retry", {})
    await family.settle(deps, ulid)
    await family.runtime.tell(ulid, "retry", {})
    await family.settle(deps, ulid)

    assert await family.status(ulid) == "completed"
    assert len(await family.children(ulid)) == 2, "nobody was started again"
    output = (await family.runtime.step(ulid, "call"))["output"]
    assert [one["output"] for one in output["results"]] == [1, 2]


async def test_what_a_parent_has_noted_of_a_child_stays_when_the_child_is_taken_up_again(
    family: Family,
) -> None:
    name = family.key("flaky")

    @family.runtime.registry.action(name)
    def flaky(ctx: Any, n: int) -> int:
        if n == 1 and ctx.step.attempt == 1:
            raise StepError("not_yet", "not yet")
        return n

    try_it = action("try", name, input={"n": "${ trigger.n }"})
    await family.publish(try_it, HOLD, ending("${ trigger.n }"), name="child")
    start = starting("child", items=[1, 2], input={"n": "${ item }"}, mode="any")
    await family.publish(start, name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    failed, other = await family.children(ulid)
    assert (failed["status"], other["status"]) == ("failed", "waiting")
    await family.runtime.tell(failed["ulid"], "retry", {})
    await family.settle(deps, ulid)
    assert await family.statuses(ulid) == ["waiting", "waiting"]
    await family.runtime.tell(other["ulid"], "signal", GO)
    await family.turns(deps, other["ulid"])
    # A process that has not seen the first end reads it from the journal, not from the row.
    await family.turns(family.process(), ulid)
    assert (await family.output(ulid))["results"] == [
        {"ulid": failed["ulid"], "status": "failed", "output": None},
        {"ulid": other["ulid"], "status": "completed", "output": 2},
    ]
    await family.runtime.tell(failed["ulid"], "signal", GO)
    await family.settle(deps, ulid)
    assert (await family.status(ulid), await family.statuses(ulid)) == (
        "completed",
        ["completed", "completed"],
    )
