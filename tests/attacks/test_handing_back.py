"""Queued steps on workers that stop: handed back, finished or left."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from adapter.execution.queued import StepDelayed
from tests.attacks.queueing import beat, counted, held, is_running, lease_over, queued
from tests.driving.turns import run_step
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, action, chain
from tests.execution.stepping import Stepping

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext


async def test_a17b_a_step_that_is_handed_back_was_not_tried(runtime: Runtime) -> None:
    stopped = threading.Event()

    def patient(ctx: ActionContext) -> str:
        assert ctx.cancelled.wait(20)
        stopped.set()
        return "half"

    runtime.registry.action("test.q", timeout=60)(patient)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    deps, stopping = runtime.process(grace=timedelta(seconds=0.1)), asyncio.Event()
    await beat(runtime, deps)
    (step,) = await queued(runtime, deps, ulid)
    running = asyncio.create_task(run_step(deps, ulid, step, stopping=stopping))
    await eventually_async(lambda: is_running(runtime, ulid))

    stopping.set()
    await asyncio.wait_for(running, 3)

    assert stopped.is_set()
    assert await counted(runtime, ulid, "q") == [False]
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "lost"), ("q", 2, "scheduled")]
    with pytest.raises(StepDelayed, match="stopping"):
        await run_step(deps, ulid, step, stopping=stopping)


async def test_a17b_a_stopping_worker_takes_what_ends_within_its_grace(runtime: Runtime) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    deps, stopping = runtime.process(grace=timedelta(seconds=20)), asyncio.Event()
    (step,) = await queued(runtime, deps, ulid)
    running = asyncio.create_task(run_step(deps, ulid, step, stopping=stopping))
    await gate.reached()
    stopping.set()
    gate.let_go()
    await asyncio.wait_for(running, 5)
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "succeeded")]


async def test_a17b_a_handler_that_cannot_be_asked_counts_although_its_worker_stops(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    deps, stopping = runtime.process(grace=timedelta(0)), asyncio.Event()
    (step,) = await queued(runtime, deps, ulid)
    running = asyncio.create_task(run_step(deps, ulid, step, stopping=stopping))
    await gate.reached()
    stopping.set()
    await asyncio.wait({running}, timeout=1)
    gate.let_go()
    await asyncio.wait_for(running, 5)
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "succeeded")]


async def test_a17b_a_handler_that_hangs_is_left_and_its_lease_hands_the_step_over(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.q", only=1)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    deps, stopping = (
        runtime.process(grace=timedelta(0), shutdown=timedelta(seconds=0.5)),
        asyncio.Event(),
    )
    await beat(runtime, deps)
    (step,) = await queued(runtime, deps, ulid)
    running = asyncio.create_task(run_step(deps, ulid, step, stopping=stopping))
    await gate.reached()
    stopping.set()
    with pytest.raises(StepDelayed, match="stopped before the handler"):
        await asyncio.wait_for(running, 5)
    assert await runtime.steps(ulid) == [("trigger", 1, "succeeded"), ("q", 1, "running")]

    async with runtime.pool.acquire() as connection:
        await deps.workers.leave(connection, deps.worker)
    await lease_over(runtime, ulid)
    await Stepping(ulid, [runtime.process()]).drive()
    gate.let_go()
    assert (await runtime.steps(ulid))[1:] == [("q", 1, "lost"), ("q", 2, "succeeded")]
    assert await counted(runtime, ulid, "q") == [False]
