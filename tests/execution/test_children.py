from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from ulid import ULID

from adapter.client.almanac import Almanac
from adapter.errors import StepError
from adapter.execution.cache import Folded
from adapter.execution.instance import Instance, Superseded
from adapter.interpreter.events import Tick
from adapter.records.relaying import Relaying
from adapter.settings import Limits
from tests.execution.families import Family, ending, line, one_turn, starting
from tests.execution.runtime import action, graph

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.execution.runtime import Runtime

HOLD: dict[str, Any] = {"id": "hold", "type": "wait", "config": {"signal": "go"}}
GO = {"name": "go", "payload": None}


@pytest_asyncio.fixture
async def family(runtime: Runtime) -> AsyncIterator[Family]:
    with Almanac(runtime.settings, registry=runtime.registry) as almanac:
        yield Family(runtime, almanac)


async def test_a_child_is_started_by_the_append_that_waits_for_it(family: Family) -> None:
    await family.publish(ending("${ trigger.n * 2 }"), name="double")
    await family.publish(
        starting("double", input={"n": "${ trigger.n }"}),
        ending("${ steps.call.output.output }"),
        name="parent",
        settings={"actor_mode": "starter"},
    )
    deps = family.process()
    ulid = await family.start("parent", {"n": 21}, owner=("org", 7), starter=("user", 3))
    result = await family.turns(deps, ulid)
    assert (result.status, result.node, family.nudges) == ("waiting", "call", 1)
    (child,) = await family.children(ulid)
    parent = await family.runtime.instance(ulid)
    step = await family.runtime.step(ulid, "call")
    assert {name: child[name] for name in _COPIED} == {name: parent[name] for name in _COPIED}
    assert (child["parent_instance_id"], child["parent_step_run_id"]) == (parent["id"], step["id"])
    assert (child["root_instance_id"], child["depth"]) == (parent["id"], 1)
    assert (child["trigger_type"], child["trigger_payload"]) == ("workflow", {"n": 21})
    assert (child["status"], child["actor_mode"]) == ("pending", "starter")
    (wait,) = await family.runtime.rows("waits", ulid)
    assert (wait["kind"], wait["match"]) == ("instances", {"instances": [child["ulid"]]})
    (key,) = await family.runtime.rows("idempotency_keys", child["ulid"])
    assert (key["scope"], key["key"]) == ("start", child["idempotency_digest"])
    assert (key["definition_id"], key["expires_at"]) == (child["definition_id"], None)
    (start,) = await family.runtime.rows("inbox", child["ulid"])
    assert (start["kind"], start["sender"]) == ("start", f"instance:{ulid}")

    await family.settle(deps, ulid)
    assert await family.output(ulid) == {"ulid": child["ulid"], "status": "completed", "output": 42}
    assert await family.output(ulid, "end") == 42
    # The child's end is one more thing to be told at once; the parent's own is nobody's business.
    assert family.nudges == 2
    told = (await family.runtime.rows("inbox", ulid))[-1]
    assert (told["kind"], told["payload"]) == (
        "child",
        {"ulid": child["ulid"], "status": "completed"},
    )
    assert (told["sender"], told["result"]) == (f"instance:{child['ulid']}", {"status": "done"})


_COPIED = ("owner_type", "owner_id", "starter_type", "starter_id")


async def test_a_child_takes_events_that_come_after_its_start_and_none_from_before(
    family: Family,
) -> None:
    event = f"paid-{family.suffix}"
    paid = {"id": "paid", "type": "wait", "config": {"event": event}}
    await family.publish(paid, ending("${ steps.paid.output.n }"), name="payment")
    await family.publish(starting("payment"), name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.runtime.emit(event, {"n": 1})
    await family.turns(deps, ulid)
    await family.runtime.emit(event, {"n": 2})
    await family.settle(deps, ulid)
    assert (await family.output(ulid))["output"] == 2


@pytest.mark.parametrize(
    ("config", "outcomes", "status", "statuses"),
    [
        ({}, "ccc", "completed", "ccc"),
        ({}, "cf?", "failed", "cfx"),
        ({"on_failure": "finish"}, "cfc", "failed", "cfc"),
        ({"mode": "any"}, "?c?", "completed", "xcx"),
        ({"mode": "any"}, "ff?", "waiting", "ff?"),
        ({"mode": "any"}, "fff", "failed", "fff"),
        ({"mode": "quorum", "quorum": 2}, "c?c", "completed", "cxc"),
        ({"mode": "quorum", "quorum": 2}, "f?f", "failed", "fxf"),
    ],
)
async def test_a_step_goes_on_when_enough_of_its_children_have_ended(
    family: Family, config: dict[str, Any], outcomes: str, status: str, statuses: str
) -> None:
    """``c`` completes, ``f`` fails, ``?`` waits, ``x`` is cancelled."""
    await family.publish_graph(_by_trigger())
    start = starting("child", items="${ trigger.items }", input={"do": "${ item }"}, **config)
    await family.publish(start, ending("${ steps.call.output }"), name="parent")
    deps = family.process()
    ulid = await family.start("parent", {"items": list(outcomes)})
    await family.turns(deps, ulid)
    for child in await family.children(ulid):
        await family.settle(deps, child["ulid"])
        await family.turns(deps, child["ulid"])
        await family.turns(deps, ulid)
    await family.settle(deps, ulid)
    names = {"completed": "c", "failed": "f", "waiting": "?", "cancelled": "x"}
    assert await family.status(ulid) == status
    assert "".join(names[status] for status in await family.statuses(ulid)) == statuses
    for child in await family.children(ulid):
        code = {"failed": "step_failed", "cancelled": "cancelled_by_parent"}.get(child["status"])
        assert child["failure_code"] == code
    if status == "completed":
        output = await family.output(ulid)
        assert [one["status"] for one in output["results"]] == [
            child["status"] for child in await family.children(ulid)
        ]
        counts = [output[name] for name in ("succeeded", "failed", "cancelled")]
        assert counts == [statuses.count(name) for name in "cfx"]
    elif status == "failed":
        assert (await family.runtime.instance(ulid))["failure_code"] == "child_failed"


def _by_trigger() -> dict[str, Any]:
    """A child that completes, fails or waits, as it is told."""
    decide = {"id": "do", "type": "decision", "config": {"on": "${ trigger.do }"}}
    return graph(
        decide,
        HOLD,
        ending("fine"),
        ending(None, node="bad", status="failed"),
        edges=[
            ("trigger", "do"),
            {"from": "do", "to": "end", "on": "c"},
            {"from": "do", "to": "bad", "on": "f"},
            {"from": "do", "to": "hold", "on": "?"},
            ("hold", "end"),
        ],
        key="child",
    )


async def test_an_instance_that_starts_others_can_go_on_and_wait_for_them_later(
    family: Family,
) -> None:
    await family.publish(HOLD, ending("${ trigger }"), name="child")
    await family.publish(
        starting("child", wait=False, items=[1, 2], input={"n": "${ item }"}),
        {"id": "late", "type": "wait_for", "config": {"instances": "${steps.call.output.ulids}"}},
        ending("${ steps.late.output.instances.map(i, i.output.n) }"),
        name="parent",
    )
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    assert await family.status(ulid) == "waiting"
    for child in await family.children(ulid):
        await family.runtime.tell(child["ulid"], "signal", GO)
    await family.settle(deps, ulid)
    assert await family.output(ulid, "end") == [1, 2]


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


async def test_instances_of_any_family_can_be_waited_for_also_when_they_have_ended(
    family: Family,
) -> None:
    await family.publish(HOLD, ending("held"), name="slow")
    await family.publish(ending("done"), name="quick")
    watching = {"id": "all", "type": "wait_for", "config": {"instances": "${ trigger.those }"}}
    await family.publish(watching, ending("${ steps.all.output }"), name="watcher")
    deps = family.process()
    slow, quick = await family.start("slow"), await family.start("quick")
    await family.settle(deps, slow, quick)
    ulid = await family.start("watcher", {"those": [slow, quick]})
    await family.settle(deps, ulid)
    assert await family.status(ulid) == "waiting"
    await family.runtime.tell(slow, "signal", GO)
    await family.turns(deps, slow)
    assert await family.told(ulid) == [ulid]
    await family.settle(deps, ulid)
    assert await family.output(ulid, "end") == {
        "instances": [
            {"ulid": slow, "status": "completed", "output": "held"},
            {"ulid": quick, "status": "completed", "output": "done"},
        ]
    }


@pytest.mark.parametrize("named", ["01J9ZQ3V0M4QF1S5W8E7R2T6YK", "another owner's"])
async def test_a_wait_for_nobody_fails_at_once(family: Family, named: str) -> None:
    await family.publish(HOLD, name="other")
    await family.publish(
        {"id": "all", "type": "wait_for", "config": {"instances": "${ trigger.it }"}},
        name="watcher",
    )
    deps = family.process()
    if named == "another owner's":
        named = await family.start("other", owner=("org", 1))
    ulid = await family.start("watcher", {"it": named}, owner=("org", 2))
    await family.settle(deps, ulid)
    instance = await family.runtime.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "wait_unsatisfiable")


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


async def test_a_child_may_end_while_its_parent_is_paused(family: Family) -> None:
    await family.publish(HOLD, ending(1), name="child")
    await family.publish(starting("child"), ending("${ steps.call.output.output }"), name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    await family.runtime.tell(ulid, "pause", {})
    await family.settle(deps, ulid)
    (child,) = await family.children(ulid)
    await family.runtime.tell(child["ulid"], "signal", GO)
    await family.settle(deps, ulid)
    assert (await family.status(ulid), await family.statuses(ulid)) == ("paused", ["completed"])
    await family.runtime.tell(ulid, "resume", {})
    await family.settle(family.process(), ulid)
    assert await family.output(ulid, "end") == 1


async def test_a_parent_that_nobody_knows_any_more_reads_its_children_from_their_rows(
    family: Family,
) -> None:
    await family.publish(ending("${ trigger.n }"), name="child")
    start = starting("child", items=[1, 2, 3], input={"n": "${ item }"})
    await family.publish(start, name="parent")
    ulid = await family.start("parent")
    await family.turns(family.process(), ulid)
    for child in await family.children(ulid):
        await family.turns(family.process(), child["ulid"])
    # All that the ends wrote is lost; a poke alone makes the parent look.
    n = family.runtime.settings.tables
    parent = await family.runtime.instance(ulid)
    await family.runtime.pool.execute(f"DELETE FROM {n.inbox} WHERE instance_id = $1", parent["id"])
    await one_turn(family.process(), ulid)
    assert [one["output"] for one in (await family.output(ulid))["results"]] == [1, 2, 3]


async def test_children_that_end_before_their_parent_has_looked_are_all_heard_of(
    family: Family,
) -> None:
    await family.publish(ending("${ trigger.n }"), name="child")
    start = starting("child", items="${ trigger.items }", input={"n": "${ item }"})
    await family.publish(start, name="parent")
    deps = family.process()
    ulid = await family.start("parent", {"items": list(range(300))})
    await family.settle(deps, ulid)
    output = await family.output(ulid)
    assert [one["output"] for one in output["results"]] == list(range(300))
    assert (output["succeeded"], output["failed"]) == (300, 0)
    children = await family.children(ulid)
    assert len({child["idempotency_digest"] for child in children}) == 300
    assert [child["trigger_payload"]["n"] for child in children] == list(range(300))


async def test_outputs_beyond_the_limit_are_left_out_together(family: Family) -> None:
    family.runtime.limit(Limits(max_output_bytes=4096))
    await family.publish(ending("${ trigger.text }"), name="child")
    start = starting("child", items="${ trigger.items }", input={"text": "${ item }"})
    await family.publish(start, name="parent")
    deps = family.process()
    fits, too_much = ["x" * 1000] * 4, ["x" * 3000] * 20
    for items, cut in ((fits, None), (too_much, True)):
        ulid = await family.start("parent", {"items": items})
        await family.settle(deps, ulid)
        output = await family.output(ulid)
        assert output.get("cut") == cut
        assert [one["output"] for one in output["results"]] == ([None] * 20 if cut else items)


async def test_a_wait_for_children_times_out_and_lets_them_go(family: Family) -> None:
    await family.publish(HOLD, name="child")
    start = starting("child", timeout="PT1H", outcome="late")
    await family.publish_graph(
        graph(
            start,
            ending("too late"),
            edges=[("trigger", "call"), {"from": "call", "to": "end", "on": "late"}],
            key="parent",
        )
    )
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    await family.runtime.jump(ulid)
    await family.turns(family.process(), ulid)
    await family.settle(deps, ulid)
    assert await family.output(ulid, "end") == "too late"
    assert await family.statuses(ulid) == ["cancelled"]


async def test_a_retry_starts_again_only_what_failed_and_a_retried_child_disturbs_nobody(
    family: Family,
) -> None:
    await family.publish_graph(_by_trigger())
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


async def test_only_what_is_active_can_be_started_and_an_owners_own_comes_first(
    family: Family,
) -> None:
    await family.publish(starting("child"), ending("${steps.call.output.output}"), name="parent")
    deps = family.process()
    owner = ("org", 5)

    async def outcome() -> Any:
        ulid = await family.start("parent", owner=owner)
        await family.settle(deps, ulid)
        code = (await family.runtime.instance(ulid))["failure_code"]
        return code or await family.output(ulid, "end")

    assert await outcome() == "child_failed"
    await family.publish(ending("common"), name="child")
    assert await outcome() == "common"
    family.owner = {"owner": ("org", 6)}
    await family.publish(ending("another's"), name="child")
    family.owner = {}
    assert await outcome() == "common"
    own = line(ending("own"), key=family.key("child"))
    await family.call(family.almanac.publish, own, owner=owner)
    assert await outcome() == "own"
    await family.runtime.pool.execute(
        "UPDATE workflow_definitions SET status = 'paused' WHERE key = $1 AND owner_scope = $2",
        family.key("child"),
        "org:5",
    )
    assert await outcome() == "child_failed"


async def test_an_end_that_passes_a_new_wait_by_is_found_by_the_sweep(family: Family) -> None:
    """The end sees no wait, the look after the wait's commit sees no end."""
    watching = {"id": "all", "type": "wait_for", "config": {"instances": "${ trigger.it }"}}
    await family.publish(HOLD, ending(5), name="slow")
    await family.publish(watching, ending("${ steps.all.output }"), name="watcher")
    runtime, n = family.runtime, family.runtime.settings.tables
    deps = family.process()
    slow = await family.start("slow")
    await family.settle(deps, slow)
    watcher = await family.start("watcher", {"it": slow})
    await family.settle(deps, watcher)
    await runtime.tell(slow, "signal", GO)
    await family.turns(deps, slow)
    await runtime.pool.execute(
        f"DELETE FROM {n.inbox} b USING {n.instances} i"
        " WHERE i.id = b.instance_id AND i.ulid = $1 AND kind = 'child'",
        watcher,
    )
    relaying = Relaying(runtime.settings)

    async def overdue() -> bool:
        async with runtime.pool.acquire() as connection:
            return watcher in {claim.ulid for claim in await relaying.overdue(connection, 10_000)}

    assert not await overdue()
    await _grow_old(runtime, slow, watcher)
    assert await overdue()
    await one_turn(deps, watcher)
    assert (await family.output(watcher, "end"))["instances"][0]["output"] == 5
    assert not await overdue()


async def test_the_sweep_leaves_those_alone_who_have_noted_every_end(family: Family) -> None:
    await family.publish_graph(_by_trigger())
    await family.publish(starting("child", items=["c", "?"], input={"do": "${item}"}), name="up")
    ulid = await family.start("up")
    await family.settle(family.process(), ulid)
    ulids = [child["ulid"] for child in await family.children(ulid)]
    await _grow_old(family.runtime, ulid, *ulids)
    async with family.runtime.pool.acquire() as connection:
        claims = await Relaying(family.runtime.settings).overdue(connection, 10_000)
    assert ulid not in {claim.ulid for claim in claims}


async def _grow_old(runtime: Runtime, *ulids: str) -> None:
    n = runtime.settings.tables
    await runtime.pool.execute(
        f"UPDATE {n.instances} SET ended_at = ended_at - interval '1 hour'"
        " WHERE ulid = ANY ($1::bpchar[])",
        list(ulids),
    )
    await runtime.pool.execute(
        f"UPDATE {n.waits} w SET created_at = w.created_at - interval '1 hour'"
        f" FROM {n.instances} i WHERE i.id = w.instance_id AND i.ulid = ANY ($1::bpchar[])",
        list(ulids),
    )


async def test_a16_two_children_that_end_in_transactions_at_once_are_both_heard_of(
    family: Family,
) -> None:
    """Each ends unseen by the other, so neither could have counted itself the last one."""
    await family.publish(ending("${ trigger.n }"), name="child")
    start = starting("child", items=[1, 2], input={"n": "${ item }"})
    await family.publish(start, name="parent")
    runtime, deps = family.runtime, family.process()
    ulid = await family.start("parent")
    await family.turns(deps, ulid)
    async with runtime.pool.acquire() as first, runtime.pool.acquire() as second:
        one, two = first.transaction(), second.transaction()
        await one.start()
        await two.start()
        for connection, child in zip((first, second), await family.children(ulid), strict=True):
            instance = Instance(deps, child["ulid"], str(ULID()), Folded())
            inbox = await instance.load(connection)
            await instance.advance(connection, [*inbox, Tick()], begin=True)
            assert instance.state.ended
        assert await family.statuses(ulid) == ["pending", "pending"]
        await one.commit()
        await family.turns(deps, ulid)
        assert await family.status(ulid) == "waiting"
        await two.commit()
    await family.turns(deps, ulid)
    assert [one["output"] for one in (await family.output(ulid))["results"]] == [1, 2]


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


async def test_a_parent_lists_its_children_and_a_child_its_parent(family: Family) -> None:
    await family.publish(ending("${ trigger.n }"), name="child")
    start = starting("child", items=[1, 2, 3], input={"n": "${ item }"})
    await family.publish(start, name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.turns(deps, ulid)
    view = await family.call(family.almanac.show, ulid)
    ulids = [child["ulid"] for child in await family.children(ulid)]
    assert [child.ulid for child in view.children] == ulids
    assert {(c.key, c.status, c.step) for c in view.children} == {
        (family.key("child"), "pending", (await family.runtime.step(ulid, "call"))["id"])
    }
    await family.settle(deps, ulid)
    view = await family.call(family.almanac.show, ulids[1])
    assert (view.parent, view.status) == (ulid, "completed")
