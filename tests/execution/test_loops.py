from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapter.execution.instance import SNAPSHOT_EVERY
from adapter.interpreter.draft import MAX_PASSES
from adapter.settings import Limits
from tests.driving.turns import take_single_turn
from tests.execution.runtime import action, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


def set_node(node: str, **values: Any) -> dict[str, Any]:
    return {"id": node, "type": "set", "config": {"values": values}}


SHOW = {"id": "show", "type": "end", "config": {"output": "${ state.n }"}}


def counting(to: int, *, max_steps: int | None = None) -> dict[str, Any]:
    """A loop of passing nodes that counts; two nodes a round."""
    document = graph(
        set_node("begin", n=0),
        set_node("add", n="${ state.n + 1 }"),
        {"id": "check", "type": "decision", "config": {}},
        SHOW,
        edges=[
            ("trigger", "begin"),
            ("begin", "add"),
            ("add", "check"),
            {"from": "check", "to": "add", "when": f"state.n < {to}"},
            ("check", "show"),
        ],
    )
    if max_steps is not None:
        document["settings"] = {"limits": {"max_steps": max_steps}}
    return document


async def test_each_entry_into_a_node_is_a_visit_with_a_key_of_its_own(runtime: Runtime) -> None:
    keys: list[str] = []

    @runtime.registry.action("see")
    async def see(ctx: Any, n: int) -> int:
        keys.append(ctx.step.idempotency_key)
        return n

    document = graph(
        set_node("begin", n=1),
        action("see", "see", input={"n": "${ state.n }"}),
        set_node("add", n="${ steps.see.output + 1 }"),
        {"id": "show", "type": "end", "config": {"output": "${ steps.see.output }"}},
        edges=[
            ("trigger", "begin"),
            ("begin", "see"),
            ("see", "add"),
            {"from": "add", "to": "see", "when": "state.n <= 3"},
            ("add", "show"),
        ],
    )
    ulid = await runtime.ran(document)
    rows = [r for r in await runtime.rows("step_runs", ulid) if r["node_id"] == "see"]
    assert [(r["visit"], r["attempt"], r["input"], r["output"]) for r in rows] == [
        (n, 1, {"n": n}, n) for n in (1, 2, 3)
    ]
    assert [r["idempotency_key"] for r in rows] == keys == [f"wf:{ulid}:see:{n}" for n in (1, 2, 3)]
    assert (await runtime.step(ulid, "show"))["output"] == 3
    instance = await runtime.instance(ulid)
    assert instance["steps_count"] == len(await runtime.rows("step_runs", ulid)) == 2 + 6 + 1
    assert [s["id"] for s in rows] == sorted(s["id"] for s in rows)


async def test_a_loop_of_passing_nodes_goes_on_beyond_one_decision(runtime: Runtime) -> None:
    rounds = 2 * MAX_PASSES
    ulid = await runtime.begun(counting(rounds))
    result = await runtime.finish(runtime.process(), ulid)
    assert result.status == "completed"
    assert (await runtime.step(ulid, "show"))["output"] == rounds
    instance = await runtime.instance(ulid)
    assert instance["steps_count"] == 3 + 2 * rounds
    journal = await runtime.rows("journal", ulid)
    assert [row["seq"] for row in journal] == list(range(1, instance["lock_version"] + 1))
    in_one_append = max(sum(r["at"] == row["at"] for r in journal) for row in journal)
    assert MAX_PASSES < in_one_append < 3 * MAX_PASSES


async def test_a_turn_whose_time_is_up_leaves_the_rest_to_the_next(runtime: Runtime) -> None:
    ulid = await runtime.begun(counting(MAX_PASSES))
    brief = runtime.process(stretch=runtime.settings.worker.stretch * 0)
    turns = 0
    while (result := await take_single_turn(brief, ulid)).more:
        turns += 1
        assert result.progressed
        assert (await runtime.instance(ulid))["status"] == "running"
    assert (result.status, turns > 0) == ("completed", True)
    assert (await runtime.step(ulid, "show"))["output"] == MAX_PASSES


async def test_a_long_journal_gets_snapshots_and_a_cold_process_goes_on_from_the_last(
    runtime: Runtime,
) -> None:
    document = counting(SNAPSHOT_EVERY + 20)
    pause = {"id": "pause", "type": "wait", "config": {"event": "long.journal"}}
    document["nodes"].append(pause)
    document["edges"][-1] = {"from": "check", "to": "pause"}
    document["edges"].append({"from": "pause", "to": "show"})
    ulid = await runtime.begun(document)
    await runtime.finish(runtime.process(), ulid)
    snapshots = [r for r in await runtime.rows("journal", ulid) if r["kind"] == "snapshot"]
    assert len(snapshots) >= 2
    assert snapshots[-1]["data"]["values"]["n"] > SNAPSHOT_EVERY // 2
    assert snapshots[-1]["step_run_id"] is None

    await runtime.deliver(ulid, await runtime.emit("long.journal", {}))
    await runtime.finish(runtime.process(), ulid)

    assert (await runtime.step(ulid, "show"))["output"] == SNAPSHOT_EVERY + 20
    assert (await runtime.instance(ulid))["status"] == "completed"


@pytest.mark.parametrize(
    ("setting", "own", "limit"), [(20, None, 20), (20, 9, 9), (9, 20, 9), (20, 20, 20)]
)
async def test_an_endless_loop_ends_at_the_lower_of_both_limits(
    runtime: Runtime, setting: int, own: int | None, limit: int
) -> None:
    runtime.limit(Limits(max_steps=setting))
    ulid = await runtime.ran(counting(10_000, max_steps=own))
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "max_steps_exceeded")
    assert instance["failure_message"].startswith(f"the instance has entered {limit} nodes")
    assert instance["steps_count"] == len(await runtime.rows("step_runs", ulid)) == limit
    assert instance["failed_node_id"] in ("add", "check")
    assert {status for _, _, status in await runtime.steps(ulid)} == {"succeeded"}


async def test_exactly_the_allowed_number_of_steps_is_allowed(runtime: Runtime) -> None:
    for allowed, status in ((3 + 2 * 5, "completed"), (2 + 2 * 5, "failed")):
        ulid = await runtime.ran(counting(5, max_steps=allowed))
        assert (await runtime.instance(ulid))["status"] == status


async def test_attempts_of_one_visit_count_as_one_step(runtime: Runtime) -> None:
    @runtime.registry.action("third")
    async def third(ctx: Any) -> int:
        if ctx.step.attempt < 3:
            raise ValueError("not yet")
        return int(ctx.step.attempt)

    node = action("try", "third", retry={"max_attempts": 3, "initial": "PT0S"})
    document = graph(node, edges=[("trigger", "try")])
    document["settings"] = {"limits": {"max_steps": 2}}
    ulid = await runtime.ran(document)
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["steps_count"]) == ("completed", 2)
    assert len(await runtime.rows("step_runs", ulid)) == 4
