"""Queued steps whose workers die, hang, lack their handler or lose the database."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from adapter.execution.queued import StepDelayed
from adapter.execution.registry import Registry
from tests.attacks.queueing import counted, held, killed_in, lease_over, queued
from tests.attacks.seams import FaultyAppender, Held, assert_sound
from tests.driving.turns import run_step, take_turn
from tests.execution.runtime import Runtime, action, chain, graph
from tests.execution.stepping import Stepping

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext


async def test_a21_a_step_waits_for_a_worker_with_its_handler_and_says_so_once(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    gate = held(runtime, "test.q")
    gate.let_go()
    ulid = await runtime.begun(chain(action("q", "test.q")))
    old, new = runtime.process(), runtime.process()
    old.registry, old.policies = Registry(), {}
    (step,) = await queued(runtime, old, ulid)

    with caplog.at_level(logging.WARNING, "almanac.queued"):
        for _ in range(3):
            with pytest.raises(StepDelayed) as delayed:
                await run_step(old, ulid, step)
            assert delayed.value.seconds <= 1
    assert [r.getMessage() for r in caplog.records if "test.q" in r.getMessage()] == [
        "no handler for action 'test.q' here: its steps wait for a worker that has it"
    ]
    assert await runtime.steps(ulid) == [("trigger", 1, "succeeded"), ("q", 1, "scheduled")]

    await run_step(new, ulid, step)
    assert (await take_turn(old, ulid, activities=True)).status == "completed"


async def test_a22_a_queued_step_that_kills_its_workers_fails_after_three(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    for _ in range(3):
        (step,) = await queued(runtime, runtime.process(), ulid)
        await killed_in(gate, runtime, ulid, step)
        await run_step(runtime.process(), ulid, step)

    assert (await runtime.instance(ulid))["failure_code"] == "worker_lost"
    assert await counted(runtime, ulid, "q") == [True] * 3
    assert gate.calls == 3
    gate.let_go()
    await assert_sound(runtime, ulid)


async def test_a22_steps_that_die_with_their_worker_are_suspects_but_fail_only_by_themselves(
    runtime: Runtime,
) -> None:
    gates = {name: Held() for name in ("killer", "innocent")}
    for name, gate in gates.items():
        runtime.registry.action(f"test.{name}")(gate.handler)
    both = {
        "id": "both",
        "type": "parallel",
        "config": {"branches": {"killer": "k", "innocent": "i"}, "on_failure": "finish"},
    }
    ulid = await runtime.begun(
        graph(
            both,
            action("k", "test.killer"),
            action("i", "test.innocent"),
            edges=[("trigger", "both")],
        )
    )
    for _ in range(2):
        turn = asyncio.create_task(take_turn(runtime.process(), ulid, activities=True))
        await asyncio.gather(*(gate.reached() for gate in gates.values()))
        turn.cancel()
        with suppress(asyncio.CancelledError):
            await turn
    killer, innocent = await queued(runtime, runtime.process(), ulid, 2)
    assert (await runtime.step(ulid, "k"))["id"] == int(killer)

    third = runtime.process()
    running = asyncio.create_task(run_step(third, ulid, killer))
    await gates["killer"].reached()
    with pytest.raises(StepDelayed, match="2 workers died in step"):
        await run_step(third, ulid, innocent)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await lease_over(runtime, ulid)
    await run_step(runtime.process(), ulid, killer)
    gates["innocent"].let_go()
    await run_step(runtime.process(), ulid, innocent)
    gates["killer"].let_go()

    killed = [step for step in await runtime.steps(ulid) if step[0] == "k"]
    assert killed == [("k", attempt, "lost") for attempt in (1, 2, 3)]
    assert await counted(runtime, ulid, "k") == [True] * 3
    saved = [step for step in await runtime.steps(ulid) if step[0] == "i"]
    assert saved == [("i", 1, "lost"), ("i", 2, "lost"), ("i", 3, "succeeded")]


async def test_a22_a_handler_without_a_sign_of_life_has_hung(runtime: Runtime) -> None:
    freed = threading.Event()

    def handler(ctx: ActionContext) -> None:
        ctx.heartbeat()
        freed.wait(60)

    runtime.registry.action("test.q", heartbeat=1, timeout=50)(handler)
    ulid = await runtime.begun(chain(action("q", "test.q")))
    result = await asyncio.wait_for(Stepping(ulid, [runtime.process()]).drive(), 15)
    freed.set()
    assert result.status == "failed"
    step = await runtime.step(ulid, "q")
    assert (step["error_code"], "no sign of life" in step["error_message"]) == (
        "step_timed_out",
        True,
    )


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
async def test_a11_a_connection_that_breaks_at_an_append_costs_at_most_another_attempt(
    runtime: Runtime, at: int, when: Any
) -> None:
    gate = held(runtime, "test.q")
    gate.let_go()
    ulid = await runtime.begun(chain(action("q", "test.q")))
    (step,) = await queued(runtime, runtime.process(), ulid)
    broken = runtime.process()
    broken.appender = FaultyAppender(runtime.settings, at, when)
    with suppress(ConnectionResetError):
        await run_step(broken, ulid, step)
    if (at, when) == (1, "after"):
        with pytest.raises(StepDelayed):
            await run_step(runtime.process(), ulid, step)
        await lease_over(runtime, ulid)

    assert (await Stepping(ulid, [runtime.process()]).drive()).status == "completed"
    assert gate.calls == 1
    assert (await runtime.step(ulid, "q"))["output"] == 1
    await assert_sound(runtime, ulid)


async def test_a11_a_result_outlives_a_database_that_is_gone_for_a_while(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = held(runtime, "test.q")
    ulid = await runtime.begun(chain(action("q", "test.q")))
    deps = runtime.process()
    (step,) = await queued(runtime, deps, ulid)
    running = asyncio.create_task(run_step(deps, ulid, step))
    await gate.reached()
    load, failures = deps.loader.load, 0

    async def failing(*arguments: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures < 4:
            raise asyncpg.ConnectionDoesNotExistError("gone")
        return await load(*arguments)

    monkeypatch.setattr(deps.loader, "load", failing)
    gate.let_go()
    await asyncio.wait_for(running, 10)

    assert failures >= 4
    assert (gate.calls, (await runtime.steps(ulid))[1:]) == (1, [("q", 1, "succeeded")])
