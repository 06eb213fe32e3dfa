"""Instances that others start and wait for."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.settings import Limits
from tests.execution.families import GO, HOLD, Family, by_trigger, ending, line, starting
from tests.execution.runtime import graph

_COPIED = ("owner_type", "owner_id", "starter_type", "starter_id")


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
    await family.publish_graph(by_trigger())
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
