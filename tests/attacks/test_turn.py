from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from adapter.execution.registry import Registry
from adapter.interpreter import entries as kinds
from adapter.records.load import MAX_INBOX, Loader
from tests.attacks.seams import (
    PATIENCE,
    FaultyAppender,
    Held,
    StoppedAppender,
    assert_sound,
    record,
)
from tests.driving.turns import take_single_turn, take_turn
from tests.execution.runtime import Runtime, action, chain

if TYPE_CHECKING:
    from adapter.execution.deps import TurnDeps
    from adapter.records.load import Loaded

STEP_BY_STEP = timedelta(0)
WAIT = {"id": "w", "type": "wait", "config": {"event": "go"}}


def registered(runtime: Runtime, *names: str) -> None:
    async def handler(**values: Any) -> dict[str, Any]:
        return values

    for name in names:
        runtime.registry.action(name)(handler)


def held(runtime: Runtime, name: str, only: int = 1_000) -> Held:
    gate = Held(only)
    runtime.registry.action(name, timeout=PATIENCE)(gate.handler)
    return gate


async def beat(runtime: Runtime, deps: TurnDeps) -> None:
    """The sign of life that a running worker gives every second."""
    async with runtime.pool.acquire() as connection:
        await deps.workers.beat(connection, deps.worker, name="w", task_queue="q", details={})


async def note(runtime: Runtime, ulid: str, kind: str = "note", count: int = 1) -> None:
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind) SELECT id, $2 FROM workflow_instances,"
        " generate_series(1, $3) WHERE ulid = $1",
        ulid,
        kind,
        count,
    )


async def losses(runtime: Runtime, ulid: str) -> list[bool]:
    rows = await runtime.pool.fetch(
        "SELECT (j.data ->> 'counted')::boolean AS counted FROM workflow_journal j"
        " JOIN workflow_instances i ON i.id = j.instance_id"
        " WHERE i.ulid = $1 AND j.kind = 'step_lost' ORDER BY j.seq",
        ulid,
    )
    return [row["counted"] for row in rows]


async def test_a2_what_arrives_while_a_handler_runs_is_applied_at_the_next_boundary(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.a")
    registered(runtime, "test.b")
    ulid = await runtime.begun(chain(action("a", "test.a"), action("b", "test.b")))
    turn = asyncio.create_task(take_turn(runtime.process(), ulid))
    await gate.reached()
    await note(runtime, ulid)

    gate.let_go()

    assert (await turn).ended
    journal = await runtime.journal(ulid)
    applied = journal.index(kinds.INBOX_APPLIED)
    assert journal[applied - 2 : applied] == [kinds.STEP_SUCCEEDED, kinds.STEP_STARTED]
    assert journal[applied + 1] == kinds.STEP_SUCCEEDED
    await assert_sound(runtime, ulid)


async def test_a11a_a_turn_that_is_behind_ends_and_the_next_one_catches_up(
    runtime: Runtime,
) -> None:
    registered(runtime, "test.a")
    ulid = await runtime.begun(chain(action("a", "test.a"), WAIT))
    late, other = runtime.process(), runtime.process()
    late.appender = stopped = StoppedAppender(runtime.settings, at=1)
    turn = asyncio.create_task(take_single_turn(late, ulid))
    await stopped.reached.wait()
    await runtime.finish(other, ulid)
    before = await runtime.journal(ulid)

    stopped.let_go.set()
    refused = await turn
    caught_up = await take_turn(late, ulid)

    assert (refused.more, refused.progressed) == (True, False)
    assert (caught_up.status, caught_up.more, caught_up.progressed) == ("waiting", False, False)
    assert await runtime.journal(ulid) == before


async def test_a11_an_infrastructure_error_leaves_the_turn_and_is_no_failed_step(
    runtime: Runtime,
) -> None:
    registered(runtime, "test.a")
    ulid = await runtime.begun(chain(action("a", "test.a")))
    deps = runtime.process()
    deps.appender = FaultyAppender(runtime.settings, 2, "before")

    with pytest.raises(ConnectionResetError):
        await take_turn(deps, ulid)

    assert await runtime.steps(ulid) == [("trigger", 1, "succeeded"), ("a", 1, "running")]


async def test_a11_a_session_that_the_server_ends_leaves_the_turn_as_an_error_and_is_replaced(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.a", only=1)
    ulid = await runtime.begun(chain(action("a", "test.a")))
    deps = runtime.process()
    turn = asyncio.create_task(take_turn(deps, ulid))
    await gate.reached()
    await runtime.pool.fetchval(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    gate.let_go()
    with suppress(Exception):
        await turn
    await runtime.finish(deps, ulid)

    assert (await runtime.instance(ulid))["status"] == "completed"
    assert "failed" not in {status for _, _, status in await runtime.steps(ulid)}
    await assert_sound(runtime, ulid)


async def test_a12_b3_a_stalled_turn_and_its_successor_make_one_success_and_no_mutual_kill(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.a", only=1)
    ulid = await runtime.begun(chain(action("a", "test.a")))
    stalled, second = runtime.process(), runtime.process()
    await beat(runtime, stalled)
    turn = asyncio.create_task(take_single_turn(stalled, ulid))
    await gate.reached()

    await runtime.finish(second, ulid)
    gate.let_go()
    refused = await turn

    assert await runtime.steps(ulid) == [
        ("trigger", 1, "succeeded"),
        ("a", 1, "lost"),
        ("a", 2, "succeeded"),
    ]
    assert (refused.ended, gate.calls) == (False, 2)
    assert await losses(runtime, ulid) == [False]
    await assert_sound(runtime, ulid)


@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_b3_a_turn_that_wakes_after_another_has_gone_on_ends_at_once(
    runtime: Runtime, at: int
) -> None:
    registered(runtime, "test.a", "test.b")
    document = chain(action("a", "test.a"), WAIT, action("b", "test.b"))
    version = await runtime.publish(document)
    await runtime.emit("other", {})
    plain, raced = await runtime.start(version), await runtime.start(version)
    await runtime.emit("go", {})
    await runtime.finish(runtime.process(), plain)
    stalled = runtime.process()
    stalled.appender = stopped = StoppedAppender(runtime.settings, at)
    turn = asyncio.create_task(take_single_turn(stalled, raced))
    await stopped.reached.wait()

    await runtime.finish(runtime.process(), raced)
    stopped.let_go.set()
    refused = await turn

    assert stopped.calls == at
    assert not refused.ended
    assert await record(runtime, raced) == await record(runtime, plain)
    await assert_sound(runtime, raced)


async def killed_in(gate: Held, deps: TurnDeps, ulid: str) -> None:
    """A turn whose process dies while its handler runs."""
    turn = asyncio.create_task(take_turn(deps, ulid))
    await gate.reached()
    turn.cancel()
    with suppress(asyncio.CancelledError):
        await turn


async def test_a22_a_step_that_kills_its_workers_fails_after_three(runtime: Runtime) -> None:
    gate = held(runtime, "test.a")
    ulid = await runtime.begun(chain(action("a", "test.a")))
    for _ in range(3):
        await killed_in(gate, runtime.process(), ulid)

    result = await take_turn(runtime.process(), ulid)
    gate.let_go()

    assert result.status == "failed"
    assert (await runtime.instance(ulid))["failure_code"] == "worker_lost"
    assert [step for step in await runtime.steps(ulid) if step[0] == "a"] == [
        ("a", n, "lost") for n in (1, 2, 3)
    ]
    assert await losses(runtime, ulid) == [True] * 3
    assert gate.calls == 3


async def test_a22_losses_of_workers_that_live_or_left_do_not_count(runtime: Runtime) -> None:
    gate = held(runtime, "test.a", only=5)
    ulid = await runtime.begun(chain(action("a", "test.a")))
    for number in range(5):
        deps = runtime.process()
        await beat(runtime, deps)
        await killed_in(gate, deps, ulid)
        if number % 2:
            async with runtime.pool.acquire() as connection:
                await deps.workers.leave(connection, deps.worker)

    await runtime.finish(runtime.process(), ulid)
    gate.let_go()

    assert (await runtime.steps(ulid))[-1] == ("a", 6, "succeeded")
    assert await losses(runtime, ulid) == [False] * 5


def without_handlers(runtime: Runtime) -> TurnDeps:
    deps = runtime.process()
    deps.registry = Registry()
    deps.policies = {}
    return deps


async def test_a21_a_worker_without_the_handler_leaves_the_step_to_one_that_has_it(
    runtime: Runtime,
) -> None:
    registered(runtime, "test.a")
    ulid = await runtime.begun(chain(action("a", "test.a")))

    result = await take_turn(without_handlers(runtime), ulid)
    again = await take_turn(without_handlers(runtime), ulid)

    assert await runtime.steps(ulid) == [("trigger", 1, "succeeded"), ("a", 1, "scheduled")]
    assert (result.stuck, result.more, result.ended) == (True, False, False)
    assert (again.stuck, again.progressed) == (True, False)

    await runtime.finish(runtime.process(), ulid)

    assert (await runtime.steps(ulid))[-1] == ("a", 1, "succeeded")


async def test_b5_who_does_not_run_the_next_step_leaves_it_scheduled(runtime: Runtime) -> None:
    registered(runtime, "test.a")
    ulid = await runtime.begun(chain(*(action(f"s{n}", "test.a") for n in range(4))))

    for _ in range(4):
        result = await take_turn(runtime.process(stretch=STEP_BY_STEP), ulid)
        opened = [s for _, _, s in await runtime.steps(ulid) if s != "succeeded"]
        assert opened == ["scheduled"] * (not result.ended)

    assert result.ended
    assert kinds.STEP_LOST not in await runtime.journal(ulid)


async def test_b5_a_turn_told_to_stop_finishes_its_step_and_begins_no_other(
    runtime: Runtime,
) -> None:
    gate = held(runtime, "test.a")
    ulid = await runtime.begun(chain(*(action(f"s{n}", "test.a") for n in range(3))))
    stopping = asyncio.Event()
    turn = asyncio.create_task(take_single_turn(runtime.process(), ulid, stopping))
    await gate.reached()

    stopping.set()
    gate.let_go()
    result = await turn

    assert (result.more, result.stuck) == (True, False)
    assert await runtime.steps(ulid) == [
        ("trigger", 1, "succeeded"),
        ("s0", 1, "succeeded"),
        ("s1", 1, "scheduled"),
    ]


async def test_b6a_rows_that_lead_to_nothing_are_applied_all_the_same(runtime: Runtime) -> None:
    ulid = await runtime.begun(chain(WAIT))
    deps = runtime.process()
    await runtime.finish(deps, ulid)
    await note(runtime, ulid, "event")
    await note(runtime, ulid, "note")

    first = await take_turn(deps, ulid)
    second = await take_turn(deps, ulid)

    rows = await runtime.pool.fetch("SELECT applied_at, result FROM workflow_inbox ORDER BY id")
    assert all(row["applied_at"] for row in rows)
    assert (first.more, first.progressed) == (False, True)
    assert (second.more, second.progressed) == (False, False)


async def test_b6a_more_rows_than_one_load_brings_are_applied_in_one_turn(runtime: Runtime) -> None:
    ulid = await runtime.begun(chain(WAIT))
    await note(runtime, ulid, count=2 * MAX_INBOX + 1)

    await take_turn(runtime.process(), ulid)

    applied = await runtime.pool.fetchval("SELECT count(applied_at) FROM workflow_inbox")
    assert applied == 2 * MAX_INBOX + 2
    await assert_sound(runtime, ulid)


class ClockAhead(Loader):
    """As from a database whose clock is an hour ahead."""

    async def load(self, *args: Any, **more: Any) -> Loaded:
        loaded = await super().load(*args, **more)
        return replace(loaded, now=loaded.now + timedelta(hours=1))


async def test_b12_a_delay_is_counted_by_the_database_s_clock(runtime: Runtime) -> None:
    delay = {"id": "d", "type": "delay", "config": {"for": "PT2H"}}
    ulid = await runtime.begun(chain(delay))

    first = await take_turn(runtime.process(), ulid)
    ahead = runtime.process()
    ahead.loader = ClockAhead(runtime.settings)
    second = await take_turn(ahead, ulid)

    assert first.delay == pytest.approx(7_200, abs=5)
    assert second.delay == pytest.approx(3_600, abs=5)


async def test_b12_a_delay_is_never_so_short_that_turns_follow_without_a_pause(
    runtime: Runtime,
) -> None:
    soon = {"id": "d", "type": "delay", "config": {"for": "PT0.01S"}}
    ulid = await runtime.begun(chain(soon, {**WAIT, "config": {"event": "go", "timeout": "PT1H"}}))

    results = [await take_turn(runtime.process(), ulid) for _ in range(3)]

    assert all(result.delay is None or result.delay >= 0.05 for result in results)
    assert not any(result.more for result in results)
