from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.worker import Replayer, Worker

from adapter.interpreter import entries as kinds
from adapter.settings import Settings
from temporal_workflows import driver, worker
from temporal_workflows.contracts import workflow_id
from tests.attacks.driving import Driven, Turns, reaches
from tests.attacks.seams import PATIENCE, Held, assert_sound
from tests.driving.parts import driver_class, turn_activities
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, action, chain

if TYPE_CHECKING:
    from temporal_workflows.contracts import Turned

WAIT = {"id": "w", "type": "wait", "config": {"event": "go"}}


def turns_of(runtime: Runtime, **hooks: Any) -> Turns:
    return Turns(turn_activities(runtime.process()), **hooks)


async def note(runtime: Runtime, ulid: str) -> None:
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind) SELECT id, 'note' FROM workflow_instances"
        " WHERE ulid = $1",
        ulid,
    )


async def unapplied(runtime: Runtime) -> int:
    count: int = await runtime.pool.fetchval(
        "SELECT count(*) FROM workflow_inbox WHERE applied_at IS NULL"
    )
    return count


async def test_a1_signals_during_the_first_task_make_no_step_run_twice(
    runtime: Runtime, temporal_address: str
) -> None:
    gate = Held()
    runtime.registry.action("test.a", timeout=PATIENCE)(gate.handler)
    ulid = await runtime.begun(chain(*(action(f"s{n}", "test.a") for n in range(6))))
    driven = await Driven.at(temporal_address)
    async with driven.worker(turns_of(runtime)):
        await driven.engine.start(ulid)
        await gate.reached()
        for _ in range(3):
            await note(runtime, ulid)
            await driven.engine.poke(ulid)
        gate.let_go()
        await reaches(runtime, ulid, "completed")

    assert gate.calls == 6
    assert {attempt for _, attempt, _ in await runtime.steps(ulid)} == {1}
    assert await unapplied(runtime) == 0
    await assert_sound(runtime, ulid)


async def test_a5_what_comes_while_a_run_closes_is_seen_by_it_or_by_the_next(
    runtime: Runtime, temporal_address: str
) -> None:
    driven = await Driven.at(temporal_address)
    calls = [driven.engine.poke, driven.engine.start]

    async def closing(turned: Turned) -> None:
        if turned.ended and calls:
            await note(runtime, ulid)
            await calls.pop()(ulid)

    async with driven.worker(turns_of(runtime, after=closing)):
        ulid = await runtime.begun(chain({"id": "end", "type": "end"}))
        await driven.engine.start(ulid)

        async def seen() -> None:
            assert not calls
            assert await unapplied(runtime) == 0

        await eventually_async(seen)

    assert (await runtime.journal(ulid)).count(kinds.INBOX_APPLIED) == 2


async def test_a7_outputs_never_travel_through_temporal(
    runtime: Runtime, temporal_address: str
) -> None:
    @runtime.registry.action("test.large")
    async def large(seen: int = 0) -> dict[str, Any]:
        return {"text": "x" * 250_000, "seen": seen}

    read = {"seen": "${ size(steps.s0.output.text) }"}
    steps = [
        action("s0", "test.large"),
        *(action(f"s{n}", "test.large", input=read) for n in (1, 2)),
    ]
    more = [action(f"m{n}", "test.large") for n in range(9)]
    ulid = await runtime.begun(chain(*steps, *more))
    driven = await Driven.at(temporal_address)
    async with driven.worker(turns_of(runtime)):
        await driven.engine.start(ulid)
        await reaches(runtime, ulid, "completed")

    history = await driven.history(ulid)
    assert sum(event.ByteSize() for event in history) < 10_000
    assert (
        await runtime.pool.fetchval(
            "SELECT count(*) FROM workflow_step_runs WHERE (output -> 'seen')::int = 250000"
        )
        == 2
    )


async def test_a9_a_handler_that_blocks_stops_neither_the_worker_nor_begins_again(
    runtime: Runtime, temporal_address: str
) -> None:
    gate = Held()

    @runtime.registry.action("test.blocks", timeout=PATIENCE)
    async def blocks() -> int:
        return gate.handler()

    blocked = await runtime.begun(chain(action("a", "test.blocks")))
    other = await runtime.begun(chain({"id": "end", "type": "end"}))
    driven = await Driven.at(temporal_address)
    async with driven.worker(turns_of(runtime)):
        await driven.engine.start(blocked)
        await gate.reached()
        await driven.engine.poke(blocked)
        await driven.engine.start(other)
        await reaches(runtime, other, "completed")

        async def heartbeat() -> None:
            assert await driven.count(blocked, "workflow_task_completed") > 1

        await eventually_async(heartbeat)
        gate.let_go()
        await reaches(runtime, blocked, "completed")

    assert gate.calls == 1
    assert await driven.count(blocked, "workflow_task_timed_out") == 0


async def test_a15_a_killed_worker_s_tasks_are_given_to_others_in_seconds(
    runtime: Runtime, temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    class Recording(Worker):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            seen.update(options)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(worker, "Worker", Recording)
    driven = await Driven.at(temporal_address)
    async with worker.running_worker(settings_of(runtime, driven, temporal_address)):
        pass
    first, second = [await runtime.begun(chain(WAIT)) for _ in range(2)]
    await driven.engine.start(first)
    await driven.engine.poke(second)

    assert seen["sticky_queue_schedule_to_start_timeout"] == timedelta(seconds=2)
    for ulid in (first, second):
        started = (await driven.history(ulid))[0].workflow_execution_started_event_attributes
        assert started.workflow_task_timeout.ToTimedelta() == timedelta(seconds=3)


def settings_of(runtime: Runtime, driven: Driven, address: str, **worker: Any) -> Settings:
    return Settings(
        database_url=runtime.settings.database_url,
        temporal_address=address,
        task_queue=driven.queue,
        worker=runtime.settings.worker.model_copy(update=worker),
    )


async def test_a20_a_replay_of_the_driver_takes_the_same_path(
    runtime: Runtime, temporal_address: str
) -> None:
    @runtime.registry.action("test.a", retry={"max_attempts": 2, "initial": "PT0.1S"})
    async def fails() -> None:
        raise ValueError("no")

    delay = {"id": "d", "type": "delay", "config": {"for": "PT0.1S"}}
    ulid = await runtime.begun(chain(delay, WAIT, action("a", "test.a")))
    driven = await Driven.at(temporal_address)
    async with driven.worker(turns_of(runtime), max_cached_workflows=0):
        await driven.engine.start(ulid)
        await reaches(runtime, ulid, "waiting")
        await runtime.emit("go", {})
        await runtime.pool.execute(
            "INSERT INTO workflow_inbox (instance_id, kind) SELECT id, 'event'"
            " FROM workflow_instances"
        )
        await driven.engine.poke(ulid)
        await reaches(runtime, ulid, "failed")
        handle = driven.client.get_workflow_handle(workflow_id(ulid))
        await handle.result()
        history = await handle.fetch_history()

    await Replayer(workflows=[driver_class()], build_id="attacks").replay_workflow(history)


async def test_a21_b20c_a_newer_journal_fails_the_task_and_not_the_instance(
    runtime: Runtime, temporal_address: str
) -> None:
    ulid = await runtime.begun(chain({"id": "end", "type": "end"}))
    await runtime.pool.execute("UPDATE workflow_instances SET lock_version = 1")
    await runtime.pool.execute(
        "INSERT INTO workflow_journal (instance_id, seq, kind, data, writer, interpreter, at)"
        " SELECT id, 1, 'braided', '{}', $1, 99, now() FROM workflow_instances",
        "0" * 26,
    )
    calls = 0

    async def other_worker() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            await runtime.pool.execute("DELETE FROM workflow_journal")
            await runtime.pool.execute("UPDATE workflow_instances SET lock_version = 0")

    driven = await Driven.at(temporal_address)
    async with driven.worker(turns_of(runtime, before=other_worker)):
        await driven.engine.start(ulid)
        await reaches(runtime, ulid, "completed")

    assert await driven.count(ulid, "workflow_task_failed") == 1
    await assert_sound(runtime, ulid)


async def test_a21_b12_what_this_worker_cannot_do_is_offered_to_all_after_a_pause(
    runtime: Runtime, temporal_address: str
) -> None:
    lacking = turns_of(runtime)
    ulid = await runtime.begun(chain(action("a", "test.late")))
    driven = await Driven.at(temporal_address)
    async with driven.worker(lacking):
        await driven.engine.start(ulid)
        run = await driven.run_id(ulid)

        async def continued() -> None:
            assert await driven.run_id(ulid) != run

        await eventually_async(continued)
    timers = [
        event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
        for event in await driven.history(ulid, run)
        if event.WhichOneof("attributes") == "timer_started_event_attributes"
    ]
    assert timers == [timedelta(seconds=driver.IDLE_FIRST)]
    scheduled = (await driven.history(ulid))[1].workflow_task_scheduled_event_attributes
    assert scheduled.task_queue.kind == TaskQueueKind.TASK_QUEUE_KIND_NORMAL

    @runtime.registry.action("test.late")
    async def late() -> None:
        return None

    async with driven.worker(turns_of(runtime)):
        await reaches(runtime, ulid, "completed")
    assert (await runtime.steps(ulid))[-1] == ("a", 1, "succeeded")


async def test_b10_a_worker_that_is_told_to_stop_lets_go_at_the_next_boundary(
    runtime: Runtime, temporal_address: str
) -> None:
    gate = Held(only=1)
    runtime.registry.action("test.a", timeout=PATIENCE)(gate.handler)
    ulid = await runtime.begun(chain(*(action(f"s{n}", "test.a") for n in range(20))))
    driven = await Driven.at(temporal_address)
    settings = settings_of(runtime, driven, temporal_address, stretch=timedelta(minutes=5))
    old = asyncio.create_task(worker.run_worker(settings, runtime.registry))
    await gate.reached()

    old.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    gate.let_go()
    await asyncio.wait([old])

    assert await runtime.steps(ulid) == [
        ("trigger", 1, "succeeded"),
        ("s0", 1, "succeeded"),
        ("s1", 1, "scheduled"),
    ]
    async with worker.running_worker(settings, runtime.registry):
        await reaches(runtime, ulid, "completed")
    assert gate.calls == 20


@pytest.mark.parametrize("limit", ["MAX_SIGNALS", "MAX_EVENTS"])
async def test_b11_a_run_with_many_signals_continues_as_new_and_loses_none(
    runtime: Runtime,
    temporal_address: str,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    assert (driver.MAX_SIGNALS, driver.MAX_EVENTS) == (5_000, 20_000)
    monkeypatch.setattr(driver, limit, {"MAX_SIGNALS": 3, "MAX_EVENTS": 15}[limit])
    runs: list[str] = []

    async def meet(_: Turned) -> None:
        runs.append(str(activity.info().workflow_run_id))
        if len(runs) == 5:
            await note(runtime, ulid)
            await driven.engine.poke(ulid)

    async def all_applied() -> None:
        assert await unapplied(runtime) == 0

    ulid = await runtime.begun(chain(WAIT))
    driven = await Driven.at(temporal_address)
    async with driven.worker(turns_of(runtime, after=meet), sandboxed=False):
        await driven.engine.start(ulid)
        for _ in range(10):
            await note(runtime, ulid)
            await driven.engine.poke(ulid)
            await eventually_async(all_applied)

    assert len(set(runs)) > 1
    assert (await runtime.journal(ulid)).count(kinds.INBOX_APPLIED) == 11
    await assert_sound(runtime, ulid)


async def test_a_poke_for_an_instance_that_is_gone_comes_to_an_end(
    runtime: Runtime, temporal_address: str
) -> None:
    driven = await Driven.at(temporal_address)
    async with driven.worker(turns_of(runtime)):
        await driven.engine.poke("0" * 26)
        await driven.client.get_workflow_handle(workflow_id("0" * 26)).result()


async def test_b12_a_wait_for_an_hour_is_one_timer_of_an_hour(
    runtime: Runtime, temporal_address: str
) -> None:
    delay = {"id": "d", "type": "delay", "config": {"for": "PT1H"}}
    ulid = await runtime.begun(chain(delay))
    turns = turns_of(runtime)
    driven = await Driven.at(temporal_address)
    async with driven.worker(turns):
        await driven.engine.start(ulid)

        async def timer() -> None:
            assert await driven.count(ulid, "timer_started") == 1

        await eventually_async(timer)

    history = await driven.history(ulid)
    started = [e for e in history if e.HasField("timer_started_event_attributes")]
    span = started[0].timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
    assert span.total_seconds() == pytest.approx(3_600, abs=10)
    assert len(turns.taken) == 1
