"""Queued steps and the turns of their instance, which meet in its record."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from adapter.execution.queued import StepDelayed
from tests.attacks.queueing import held, is_running, queued, short
from tests.attacks.seams import Held, assert_sound
from tests.driving.turns import run_step, take_turn
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, action, chain, graph
from tests.execution.stepping import Stepping

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext

BRANCHES: dict[str, Any] = {
    "id": "both",
    "type": "parallel",
    "config": {"branches": {"slow": "q", "quick": "a"}},
}


async def test_b4_a_turn_tells_of_every_queued_step_until_it_has_ended(runtime: Runtime) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    deps = runtime.process()

    (step,) = await queued(runtime, deps, ulid)
    assert await queued(runtime, runtime.process(), ulid) == [step]

    running = asyncio.create_task(run_step(deps, ulid, step))
    await gate.reached()
    assert await queued(runtime, runtime.process(), ulid) == [step]
    gate.let_go()
    await running
    assert (await take_turn(deps, ulid, activities=True)).ended
    await assert_sound(runtime, ulid)


async def test_b5_the_append_of_a_queued_step_leaves_the_next_step_scheduled(
    runtime: Runtime,
) -> None:
    seen = short(runtime, "test.a")
    held(runtime, "test.q").let_go()
    ulid = await runtime.begun(chain(action("q", "test.q"), action("a", "test.a")))
    deps = runtime.process()
    (step,) = await queued(runtime, deps, ulid)
    await run_step(deps, ulid, step)

    assert await runtime.steps(ulid) == [
        ("trigger", 1, "succeeded"),
        ("q", 1, "succeeded"),
        ("a", 1, "scheduled"),
    ]
    assert not seen
    assert (await take_turn(runtime.process(), ulid, activities=True)).ended
    assert len(seen) == 1
    assert await runtime.steps(ulid) == [
        ("trigger", 1, "succeeded"),
        ("q", 1, "succeeded"),
        ("a", 1, "succeeded"),
    ]


async def test_b3_the_report_of_a_queued_step_ends_no_turn_and_no_handler(
    runtime: Runtime,
) -> None:
    slow, quick = held(runtime, "test.q"), Held()
    runtime.registry.action("test.a")(quick.handler)
    after = short(runtime, "test.b")
    ulid = await runtime.begun(
        graph(
            BRANCHES,
            action("q", "test.q"),
            action("a", "test.a"),
            action("b", "test.b"),
            edges=[("trigger", "both"), ("a", "b")],
        )
    )
    deps = runtime.process()
    (step,) = await queued(runtime, deps, ulid)
    turn = asyncio.create_task(take_turn(deps, ulid, activities=True, known=frozenset({step})))
    await quick.reached()
    report = asyncio.create_task(run_step(runtime.process(), ulid, step))
    await slow.reached()
    slow.let_go()
    await report
    quick.let_go()

    assert (await turn).status == "completed"
    assert (quick.calls, slow.calls, len(after)) == (1, 1, 1)
    assert {status for _, _, status in await runtime.steps(ulid)} == {"succeeded"}
    await assert_sound(runtime, ulid)


async def test_a13_queued_steps_leave_a_turn_before_its_handlers_begin(runtime: Runtime) -> None:
    held(runtime, "test.q").let_go()
    seen = short(runtime, "test.a")
    ulid = await runtime.begun(
        graph(BRANCHES, action("q", "test.q"), action("a", "test.a"), edges=[("trigger", "both")])
    )
    deps = runtime.process()

    first = await take_turn(deps, ulid, activities=True)
    assert first.queued is not None
    assert (len(first.queued), first.more, first.stuck, seen) == (1, True, False, [])

    known = frozenset(one.step for one in first.queued)
    await take_turn(deps, ulid, activities=True, known=known)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("options", "node", "lane"),
    [
        ({"timeout": 2}, {}, None),
        ({"timeout": 2.1}, {}, ""),
        ({"timeout": 60}, {"timeout": "PT2S"}, None),
        ({}, {"timeout": "PT3S"}, ""),
        ({"heartbeat": 5, "timeout": 1}, {}, ""),
        ({"queue": "gpu", "timeout": 1}, {}, "gpu"),
    ],
)
async def test_a14_what_may_take_longer_than_two_seconds_is_no_part_of_a_turn(
    runtime: Runtime, options: dict[str, Any], node: dict[str, Any], lane: str | None
) -> None:
    held(runtime, "test.q", **{"timeout": None, **options}).let_go()
    ulid = await runtime.begun(chain(action("q", "test.q", **node)))
    result = await take_turn(runtime.process(), ulid, activities=True)
    assert result.queued is not None
    assert [one.queue for one in result.queued] == ([] if lane is None else [lane])


async def test_b15_thirty_queued_steps_that_report_at_once_are_all_taken(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.q")
    each = {
        "id": "each",
        "type": "for_each",
        "config": {"items": "${trigger}", "body": "q", "concurrency": 30},
    }
    document = graph(each, action("q", "test.q"), edges=[("trigger", "each")])
    ulid = await runtime.begun(document, list(range(30)))
    stepping = Stepping(ulid, [runtime.process() for _ in range(3)])
    await stepping.turn()
    for _ in range(30):
        await gate.reached()
    gate.let_go()

    assert (await stepping.drive()).status == "completed"
    assert gate.calls == 30
    assert (await runtime.step(ulid, "each"))["output"]["succeeded"] == 30
    await assert_sound(runtime, ulid)


async def test_b12_a_retry_that_is_not_due_waits_and_is_told_of_when_it_is(
    runtime: Runtime,
) -> None:
    calls: list[int] = []

    def handler() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")
        return len(calls)

    runtime.registry.action(
        "test.q", timeout=60, retry={"max_attempts": 2, "initial": "PT0.3S", "backoff": "constant"}
    )(handler)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    deps = runtime.process()
    (step,) = await queued(runtime, deps, ulid)
    await run_step(deps, ulid, step)
    result = await take_turn(deps, ulid, activities=True)
    assert result.queued == ()
    assert result.delay is not None
    assert result.delay <= 0.3
    second = (await runtime.step(ulid, "q"))["id"]
    with pytest.raises(StepDelayed, match="not due yet"):
        await run_step(deps, ulid, str(second))

    assert (await Stepping(ulid, [deps]).drive()).status == "completed"
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "failed"), ("q", 2, "succeeded")]


async def test_a2_a_cancelled_instance_asks_its_queued_step_to_stop(runtime: Runtime) -> None:
    asked = threading.Event()

    def handler(ctx: ActionContext) -> None:
        if ctx.cancelled.wait(20):
            asked.set()

    runtime.registry.action("test.q", timeout=60)(handler)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    stepping = Stepping(ulid, [runtime.process()])
    await stepping.turn()
    await eventually_async(lambda: is_running(runtime, ulid))
    await runtime.tell(ulid, "cancel", {})

    result = await stepping.drive()

    assert result.status == "cancelled"
    assert await asyncio.to_thread(asked.wait, 5)
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "cancelled")]


async def test_a2_a_pause_lets_a_running_step_end_and_begins_no_other(runtime: Runtime) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q"), action("r", "test.q")))
    deps = runtime.process()
    (step,) = await queued(runtime, deps, ulid)
    running = asyncio.create_task(run_step(deps, ulid, step))
    await gate.reached()
    await runtime.tell(ulid, "pause", {})

    assert await queued(runtime, deps, ulid) == [step]
    gate.let_go()
    await running
    assert await queued(runtime, deps, ulid, 0) == []
    after = (await runtime.step(ulid, "r"))["id"]
    await run_step(deps, ulid, str(after))
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "succeeded"), ("r", 1, "scheduled")]

    await runtime.tell(ulid, "resume", {})
    assert (await Stepping(ulid, [deps]).drive()).status == "completed"
    assert gate.calls == 2


async def test_a_queued_step_times_out_as_any_other(runtime: Runtime) -> None:
    freed = threading.Event()

    def handler() -> None:
        freed.wait(60)

    runtime.registry.action("test.q", queue="slow", timeout=0.3)(handler)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    result = await asyncio.wait_for(Stepping(ulid, [runtime.process()]).drive(), 10)
    freed.set()
    assert result.status == "failed"
    assert (await runtime.step(ulid, "q"))["error_code"] == "step_timed_out"


async def test_progress_is_kept_as_it_was_told_last(runtime: Runtime) -> None:
    gate = Held()

    def handler(ctx: ActionContext) -> None:
        ctx.progress({"done": 1})
        gate.handler()
        ctx.progress({"done": 2})
        ctx.progress({"done": 3})

    runtime.registry.action("test.q", timeout=60)(handler)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    stepping = Stepping(ulid, [runtime.process()])
    await stepping.turn()
    await gate.reached()

    async def told(value: str) -> None:
        rows = await runtime.pool.fetch(
            "SELECT p.value FROM workflow_step_progress p JOIN workflow_step_runs s"
            " ON s.id = p.step_run_id JOIN workflow_instances i ON i.id = s.instance_id"
            " WHERE i.ulid = $1",
            ulid,
        )
        assert [row["value"] for row in rows] == [value]

    await eventually_async(lambda: told('{"done": 1}'))
    gate.let_go()
    await stepping.drive()
    await told('{"done": 3}')
