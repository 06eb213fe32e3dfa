from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapter.errors import NotFound
from tests.driving.turns import take_turn
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


@pytest.fixture
def adding(runtime: Runtime) -> Runtime:
    @runtime.registry.action("add")
    async def add(a: int, b: int) -> int:
        return a + b

    return runtime


ADD = chain(
    action("sum", "add", input={"a": "${ trigger.n }", "b": 2}),
    {"id": "end", "type": "end", "config": {"output": {"sum": "${ steps.sum.output }"}}},
)


async def test_an_instance_leaves_one_row_for_every_step(adding: Runtime) -> None:
    ulid = await adding.ran(ADD, {"n": 3})
    rows = await adding.rows("step_runs", ulid)
    assert [(r["node_id"], r["node_type"], r["status"], r["outcome"]) for r in rows] == [
        ("trigger", "trigger", "succeeded", "success"),
        ("sum", "action", "succeeded", "success"),
        ("end", "end", "succeeded", "success"),
    ]
    assert [(r["visit"], r["attempt"], r["idempotency_key"]) for r in rows] == [
        (1, 1, f"wf:{ulid}:{node}:1") for node in ("trigger", "sum", "end")
    ]
    assert [(r["input"], r["output"]) for r in rows] == [
        (None, None),
        ({"a": 3, "b": 2}, 5),
        (None, {"sum": 5}),
    ]
    assert [r["claim_token"] is not None for r in rows] == [False, True, False]
    assert {r["error_code"] or r["scheduled_for"] or r["lease_until"] for r in rows} == {None}
    assert await adding.rows("waits", ulid) == []


async def test_the_instance_row_tells_where_it_ended(adding: Runtime) -> None:
    ulid = await adding.begun(ADD, {"n": 3})
    before = await adding.instance(ulid)
    assert (before["status"], before["lock_version"], before["steps_count"]) == ("pending", 0, 0)
    assert (before["started_at"], before["current_node_id"]) == (None, None)

    result = await adding.finish(adding.process(), ulid)

    assert (result.status, result.node, result.ended) == ("completed", "end", True)
    assert (result.more, result.delay, result.stuck) == (False, None, False)
    after = await adding.instance(ulid)
    assert (after["status"], after["current_node_id"], after["steps_count"]) == (
        "completed",
        "end",
        3,
    )
    assert (after["failure_code"], after["failure_message"], after["failed_node_id"]) == (None,) * 3
    at = [row["at"] for row in await adding.rows("journal", ulid)]
    assert after["created_at"] <= after["started_at"] == at[0]
    assert after["ended_at"] == after["updated_at"] == at[-1]


async def test_the_journal_has_every_decision_and_the_row_its_last_number(adding: Runtime) -> None:
    ulid = await adding.ran(ADD, {"n": 3})
    journal = await adding.rows("journal", ulid)
    steps = {row["node_id"]: row["id"] for row in await adding.rows("step_runs", ulid)}
    assert [(row["seq"], row["kind"], row["node_id"], row["step_run_id"]) for row in journal] == [
        (1, "started", None, None),
        (2, "step_passed", "trigger", steps["trigger"]),
        (3, "step_started", "sum", steps["sum"]),
        (4, "step_succeeded", "sum", steps["sum"]),
        (5, "step_passed", "end", steps["end"]),
        (6, "completed", "end", None),
    ]
    assert (await adding.instance(ulid))["lock_version"] == 6
    assert len({row["writer"] for row in journal}) == 1
    assert "output" not in journal[3]["data"]
    assert await adding.path(ulid) == [
        ("trigger", "success", "sum", "plain"),
        ("sum", "success", "end", "plain"),
        ("end", "success", None, "none"),
    ]


async def test_a_step_ends_and_the_next_begins_in_one_commit(adding: Runtime) -> None:
    ulid = await adding.ran(ADD, {"n": 3})
    at = {row["seq"]: row["at"] for row in await adding.rows("journal", ulid)}
    assert at[1] == at[2] == at[3]
    assert at[4] == at[5] == at[6] > at[3]
    by_node = {row["node_id"]: row for row in await adding.rows("step_runs", ulid)}
    assert by_node["sum"]["started_at"] == by_node["trigger"]["finished_at"] == at[3]
    assert by_node["sum"]["finished_at"] == by_node["end"]["started_at"] == at[4]
    (inbox,) = await adding.rows("inbox", ulid)
    assert (inbox["kind"], inbox["applied_at"], inbox["result"]) == (
        "start",
        at[1],
        {"status": "done"},
    )


async def test_a_line_without_an_end_node_completes_where_it_stops(adding: Runtime) -> None:
    ulid = await adding.ran(chain(action("sum", "add", input={"a": 1, "b": 2})))
    instance = await adding.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("completed", "sum")
    assert (await adding.path(ulid))[-1] == ("sum", "success", None, "none")


async def test_a_trigger_alone_is_a_whole_instance(runtime: Runtime) -> None:
    ulid = await runtime.ran(graph(edges=[]), {"any": "thing"})
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("completed", "trigger")
    assert await runtime.journal(ulid) == ["started", "step_passed", "completed"]


async def test_an_ended_instance_stays_as_it_is(adding: Runtime) -> None:
    ulid = await adding.ran(ADD, {"n": 3})
    before = await adding.instance(ulid)
    for deps in (adding.process(), adding.process()):
        result = await take_turn(deps, ulid)
        assert (result.ended, result.progressed, result.more) == (True, False, False)
    assert await adding.instance(ulid) == before


async def test_a_second_start_row_is_refused_and_says_why(adding: Runtime) -> None:
    ulid = await adding.begun(ADD, {"n": 3})
    await adding.tell(ulid, "start", {"snapshot": None})
    await adding.finish(adding.process(), ulid)
    assert (await adding.instance(ulid))["steps_count"] == 3
    assert [row["result"] for row in await adding.rows("inbox", ulid)] == [
        {"status": "done"},
        {"status": "refused", "reason": "already_started"},
    ]


async def test_what_an_ended_instance_is_told_is_refused_and_says_why(adding: Runtime) -> None:
    ulid = await adding.ran(ADD, {"n": 3})
    await adding.tell(ulid, "event", None)
    result = await adding.finish(adding.process(), ulid)
    assert (result.ended, result.progressed) == (True, True)
    assert (await adding.rows("inbox", ulid))[1]["result"] == {
        "status": "refused",
        "reason": "ended",
    }
    instance = await adding.instance(ulid)
    assert (instance["status"], instance["lock_version"]) == ("completed", 7)
    assert (await adding.journal(ulid))[-1] == "inbox_applied"


async def test_an_action_that_this_worker_does_not_know_waits_for_one_that_does(
    adding: Runtime,
) -> None:
    ulid = await adding.begun(chain(action("far", "elsewhere")))
    result = await adding.finish(adding.process(), ulid)
    assert (result.stuck, result.more, result.status) == (True, False, "running")
    assert await adding.steps(ulid) == [("trigger", 1, "succeeded"), ("far", 1, "scheduled")]
    assert (await adding.instance(ulid))["current_node_id"] == "far"

    adding.registry.action("elsewhere")(lambda: "here")
    await adding.finish(adding.process(), ulid)

    assert (await adding.step(ulid, "far"))["output"] == "here"
    assert (await adding.instance(ulid))["status"] == "completed"


async def test_an_instance_that_nobody_started_is_not_found(runtime: Runtime) -> None:
    with pytest.raises(NotFound, match="no instance has the ulid '0000'; was it pruned"):
        await take_turn(runtime.process(), "0000")
