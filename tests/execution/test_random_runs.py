from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.errors import StepError
from adapter.interpreter.state import ENDED
from tests.driving.turns import take_turn
from tests.execution.runtime import open_runtime
from tests.interpreter.random_graphs import PAYLOADS, documents

if TYPE_CHECKING:
    from adapter.execution.deps import TurnDeps
    from tests.execution.runtime import Runtime

HAPPENINGS = st.lists(
    st.sampled_from(["turn", "jump", "paid", "sent", "brief", "other", "failing"]), max_size=8
)
OPEN = {"scheduled", "running", "waiting", "retrying"}


def test_turns_of_any_graph_leave_rows_that_agree(database_url: str) -> None:
    with asyncio.Runner() as runner:
        context = open_runtime(database_url)
        runtime = runner.run(context.__aenter__())
        failing = [False]

        @runtime.registry.action("known")
        async def known(value: Any) -> Any:
            if failing[0]:
                raise StepError("unlucky", "unlucky")
            return {"n": 1, "value": value}

        processes: list[TurnDeps] = runner.run(_made(runtime))

        @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(documents(), PAYLOADS, HAPPENINGS)
        def check(document: dict[str, Any], trigger: dict[str, Any], happenings: list[str]) -> None:
            document["settings"] = {"limits": {"max_steps": 80}}
            runner.run(_run(runtime, processes, failing, document, trigger, happenings))

        check()
        runner.run(context.__aexit__(None, None, None))


async def _made(runtime: Runtime) -> list[TurnDeps]:
    return [
        runtime.process(),
        runtime.process(cache_instances=0),
        runtime.process(stretch=timedelta(0)),
    ]


async def _run(
    runtime: Runtime,
    processes: list[TurnDeps],
    failing: list[bool],
    document: dict[str, Any],
    trigger: dict[str, Any],
    happenings: list[str],
) -> None:
    warm, cold, brief = processes
    ulid = await runtime.begun(document, trigger)
    await _turns(runtime, warm, ulid)
    for happening in happenings:
        failing[0] = happening == "failing"
        if happening == "jump":
            await runtime.jump(ulid)
            # Only a process that has not folded the entries before they changed may go on.
            warm.cache.take(ulid)
            brief.cache.take(ulid)
        elif happening in ("paid", "sent"):
            event = await runtime.emit(happening, {"ok": True, "id": "plain"})
            await runtime.deliver(ulid, event)
        process = {"brief": brief, "other": cold}.get(happening, warm)
        await _turns(runtime, process, ulid)
    await _agree(runtime, ulid)


async def _turns(runtime: Runtime, process: TurnDeps, ulid: str) -> None:
    for _ in range(400):
        result = await take_turn(process, ulid)
        instance = await runtime.instance(ulid)
        assert (result.status, result.node) == (instance["status"], instance["current_node_id"])
        if result.stuck or not result.more:
            return
    raise AssertionError(f"instance {ulid} takes turns for ever")


async def _agree(runtime: Runtime, ulid: str) -> None:
    instance = await runtime.instance(ulid)
    journal = await runtime.rows("journal", ulid)
    steps = await runtime.rows("step_runs", ulid)
    waits = await runtime.rows("waits", ulid)
    ended = instance["status"] in ENDED
    assert [row["seq"] for row in journal] == list(range(1, instance["lock_version"] + 1))
    times = [row["at"] for row in journal]
    assert times == sorted(times)
    assert (instance["ended_at"] is not None) is ended

    is_open = [row for row in steps if row["status"] in OPEN]
    assert bool(is_open) is not ended
    assert all((row["finished_at"] is None) is (row["status"] in OPEN) for row in steps)
    waiting = {row["id"] for row in steps if row["status"] == "waiting"}
    assert {w["step_run_id"] for w in waits if w["status"] == "pending"} == waiting
    assert len({row["id"] for row in steps}) == len(steps)
    assert [row["id"] for row in steps] == [
        step for step in dict.fromkeys(row["step_run_id"] for row in journal) if step is not None
    ]
    visits = {(row["node_id"], row["visit"]) for row in steps}
    assert instance["steps_count"] == len(visits) <= 80
    assert all(row["applied_at"] is not None for row in await runtime.rows("inbox", ulid))
    if instance["status"] == "failed":
        assert instance["failure_code"]
        assert instance["failed_node_id"] == journal[-1]["node_id"] or (
            journal[-1]["kind"] == "inbox_applied"
        )
