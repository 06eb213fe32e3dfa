"""Queued steps under attack: two workers at one step, dead ones, late ones, slow ones."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from adapter.execution.queued import StepDelayed
from adapter.execution.registry import Registry
from adapter.records.relaying import Relaying
from adapter.records.writers import is_step_token
from tests.attacks.seams import FaultyAppender, Held, StoppedAppender, assert_sound
from tests.driving.turns import run_step, take_turn
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, action, chain, graph
from tests.execution.stepping import Stepping

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext
    from adapter.execution.deps import TurnDeps

BRANCHES: dict[str, Any] = {
    "id": "both",
    "type": "parallel",
    "config": {"branches": {"slow": "q", "quick": "a"}},
}


def held(runtime: Runtime, name: str, **options: Any) -> Held:
    """A queued action whose calls stop until they are let go."""
    gate = Held(options.pop("only", 1_000))
    runtime.registry.action(name, **{"timeout": 60, **options})(gate.handler)
    return gate


def short(runtime: Runtime, name: str) -> list[Any]:
    seen: list[Any] = []

    async def handler(**values: Any) -> dict[str, Any]:
        seen.append(values)
        return values

    runtime.registry.action(name)(handler)
    return seen


async def beat(runtime: Runtime, deps: TurnDeps) -> None:
    async with runtime.pool.acquire() as connection:
        await deps.workers.beat(connection, deps.worker, name="w", task_queue="q", details={})


async def queued(runtime: Runtime, deps: TurnDeps, ulid: str, count: int = 1) -> list[str]:
    """Takes a turn and returns the queued steps that it tells of."""
    result = await take_turn(deps, ulid, activities=True)
    assert result.queued is not None
    assert len(result.queued) == count
    return [one.step for one in result.queued]


async def lease_over(runtime: Runtime, ulid: str) -> None:
    """Moves the leases of an instance's running steps into the past."""
    await runtime.pool.execute(
        "UPDATE workflow_step_runs s SET lease_until = clock_timestamp() - interval '1 second'"
        " FROM workflow_instances i WHERE i.id = s.instance_id AND i.ulid = $1"
        " AND s.status = 'running'",
        ulid,
    )


async def killed_in(gate: Held, runtime: Runtime, ulid: str, step: str) -> None:
    """A process that dies while it runs a queued step."""
    running = asyncio.create_task(run_step(runtime.process(), ulid, step))
    await gate.reached()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await lease_over(runtime, ulid)


async def counted(runtime: Runtime, ulid: str, node: str) -> list[bool]:
    rows = await runtime.rows("journal", ulid)
    return [
        row["data"]["counted"]
        for row in rows
        if row["kind"] == "step_lost" and row["node_id"] == node
    ]


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


async def is_running(runtime: Runtime, ulid: str) -> None:
    assert (await runtime.step(ulid, "q"))["status"] == "running"


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
