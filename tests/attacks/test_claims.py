"""Queued steps whose claims and leases are fought over: run once, by one worker."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from adapter.execution.queued import StepDelayed
from adapter.records.relaying import Relaying
from adapter.records.writers import is_step_token
from tests.attacks.queueing import held, is_running, lease_over, queued, short
from tests.attacks.seams import StoppedAppender, assert_sound
from tests.driving.turns import run_step, take_turn
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, action, chain
from tests.execution.stepping import Stepping

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext


async def test_b4_two_workers_at_one_step_run_it_once_and_the_second_waits_for_the_first(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    (step,) = await queued(runtime, runtime.process(), ulid)
    first = asyncio.create_task(run_step(runtime.process(), ulid, step))
    await gate.reached()

    with pytest.raises(StepDelayed) as delayed:
        await run_step(runtime.process(), ulid, step)

    assert 4 < delayed.value.seconds <= 5
    gate.let_go()
    await first
    assert gate.calls == 1
    assert await runtime.steps(ulid) == [("trigger", 1, "succeeded"), ("q", 1, "succeeded")]


async def test_b4_claims_at_once_begin_one_handler(runtime: Runtime) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    (step,) = await queued(runtime, runtime.process(), ulid)
    runs = [asyncio.create_task(run_step(runtime.process(), ulid, step)) for _ in range(6)]
    await gate.reached()
    await asyncio.wait(runs, timeout=5, return_when=asyncio.ALL_COMPLETED)
    gate.let_go()
    ends = await asyncio.gather(*runs, return_exceptions=True)

    assert gate.calls == 1
    assert sum(end is None for end in ends) == 1
    assert sum(isinstance(end, StepDelayed) for end in ends) == 5
    await assert_sound(runtime, ulid)


async def test_b4_a_stale_claim_changes_nothing(runtime: Runtime) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    stale = runtime.process()
    (step,) = await queued(runtime, stale, ulid)
    stopped = stale.appender = StoppedAppender(runtime.settings, 1)
    late = asyncio.create_task(run_step(stale, ulid, step))
    await stopped.reached.wait()
    ahead = asyncio.create_task(run_step(runtime.process(), ulid, step))
    await gate.reached()

    stopped.let_go.set()
    with pytest.raises(StepDelayed, match="is being run"):
        await late

    gate.let_go()
    await ahead
    assert gate.calls == 1
    await assert_sound(runtime, ulid)


async def test_a17b_what_has_ended_or_never_was_ends_a_step_without_a_word(
    runtime: Runtime,
) -> None:
    seen = short(runtime, "test.a")
    ulid = await runtime.begun(chain(action("a", "test.a")))
    await take_turn(runtime.process(), ulid)

    ended = (await runtime.step(ulid, "a"))["id"]
    before = await runtime.journal(ulid)
    await run_step(runtime.process(), ulid, str(ended))
    await run_step(runtime.process(), ulid, "987654321")

    assert len(seen) == 1
    assert await runtime.journal(ulid) == before


async def test_b4_a_worker_that_lost_its_lease_stops_and_its_result_is_not_taken(
    runtime: Runtime,
) -> None:
    asked = threading.Event()
    calls: list[int] = []

    def handler(ctx: ActionContext) -> int:
        calls.append(1)
        if len(calls) == 1:
            assert ctx.cancelled.wait(20)
            asked.set()
        return len(calls)

    runtime.registry.action("test.q", timeout=60)(handler)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    slow, doubt = runtime.process(), asyncio.Event()
    (step,) = await queued(runtime, slow, ulid)
    running = asyncio.create_task(run_step(slow, ulid, step, doubt=doubt))
    await eventually_async(lambda: is_running(runtime, ulid))
    await lease_over(runtime, ulid)
    other = runtime.process()
    await run_step(other, ulid, step)

    doubt.set()
    await asyncio.wait_for(running, 5)
    assert asked.wait(5)
    await Stepping(ulid, [other]).drive()

    assert (await runtime.step(ulid, "q"))["output"] == 2
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "lost"), ("q", 2, "succeeded")]
    await assert_sound(runtime, ulid)


async def test_b4_hearsay_stops_nothing(runtime: Runtime) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    deps, doubt = runtime.process(), asyncio.Event()
    (step,) = await queued(runtime, deps, ulid)
    running = asyncio.create_task(run_step(deps, ulid, step, doubt=doubt))
    await gate.reached()
    before = (await runtime.step(ulid, "q"))["lease_until"]
    doubt.set()

    async def renewed() -> None:
        assert (await runtime.step(ulid, "q"))["lease_until"] > before

    await eventually_async(renewed)
    assert not running.done()
    gate.let_go()
    await running
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "succeeded")]


async def test_b8_a_sweep_finds_steps_that_nobody_claims_and_leases_that_are_over(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    (step,) = await queued(runtime, runtime.process(), ulid)

    async def overdue() -> bool:
        claims = await Relaying(runtime.settings).overdue(runtime.pool, 100)
        return ulid in {claim.ulid for claim in claims}

    async def aged() -> None:
        await runtime.pool.execute(
            "UPDATE workflow_step_runs SET updated_at = updated_at - interval '11 seconds'"
            " WHERE id = $1",
            int(step),
        )

    assert not await overdue()
    await aged()
    assert await overdue()
    running = asyncio.create_task(run_step(runtime.process(), ulid, step))
    await gate.reached()
    await aged()
    assert not await overdue()
    await lease_over(runtime, ulid)
    assert await overdue()
    gate.let_go()
    await running
    assert not await overdue()


async def test_the_lease_is_renewed_while_the_handler_runs(runtime: Runtime) -> None:
    gate = held(runtime, "test.q", heartbeat=1)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    stepping = Stepping(ulid, [runtime.process()])
    await stepping.turn()
    await gate.reached()
    first = (await runtime.step(ulid, "q"))["lease_until"]

    async def renewed() -> None:
        assert (await runtime.step(ulid, "q"))["lease_until"] > first

    await eventually_async(renewed)
    assert is_step_token((await runtime.step(ulid, "q"))["claim_token"])
    gate.let_go()
    await stepping.drive()
