from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from adapter.interpreter import entries as kinds
from adapter.interpreter.entries import Entry
from adapter.interpreter.state import ENDED
from adapter.records.append import RowMissing
from tests.attacks.seams import Hand, assert_sound
from tests.eventually import eventually_async
from tests.execution.runtime import Runtime, action, chain

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN = {"to": None, "by": "none", "index": None}
STARTED = Entry(kinds.STARTED, data={"snapshot": None, "after": None})
NOTED = Entry(kinds.INBOX_APPLIED, data={"kind": "note", "result": {"status": "done"}})


def passed(step: int, node: str = "set") -> Entry:
    data = {"new": True, "type": "set", "visit": 1, "outcome": "success", "edge": PLAIN}
    return Entry(kinds.STEP_PASSED, node, step, data)


async def begun(runtime: Runtime) -> Hand:
    hand = await Hand.on(runtime, await runtime.begun(chain(action("a", "test.a"))))
    assert await hand.append(STARTED) is not None
    return hand


async def waiting_for_a_lock(runtime: Runtime) -> None:
    async def one_waits() -> None:
        waiting = await runtime.pool.fetchval(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        )
        assert waiting > 0

    await eventually_async(one_waits)


async def unapplied(runtime: Runtime, hand: Hand, kind: str = "note") -> int:
    row: int = await runtime.pool.fetchval(
        "INSERT INTO workflow_inbox (instance_id, kind) VALUES ($1, $2) RETURNING id", hand.id, kind
    )
    return row


async def contents(runtime: Runtime, hand: Hand) -> dict[str, Any]:
    return {
        table: await runtime.pool.fetchval(
            f"SELECT jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)) FROM {table} t"
            f" WHERE {'id' if table == 'workflow_instances' else 'instance_id'} = $1",
            hand.id,
        )
        for table in (
            "workflow_instances",
            "workflow_step_runs",
            "workflow_waits",
            "workflow_journal",
            "workflow_inbox",
        )
    }


async def test_a10_finish_times_follow_the_order_of_commits_whatever_the_clock_says(
    runtime: Runtime,
) -> None:
    hand = await begun(runtime)
    await runtime.pool.execute(
        "UPDATE workflow_instances SET updated_at = clock_timestamp() + interval '1 hour'"
    )

    for n in range(5):
        await hand.append(passed(await hand.step_id(), f"set{n}"))

    nodes = await runtime.pool.fetch("SELECT node_id FROM workflow_step_runs ORDER BY finished_at")
    assert [row["node_id"] for row in nodes] == [f"set{n}" for n in range(5)]
    ahead = await runtime.pool.fetchval(
        "SELECT min(finished_at) > clock_timestamp() + interval '59 minutes'"
        " AND count(DISTINCT finished_at) = 5 FROM workflow_step_runs"
    )
    assert ahead
    await assert_sound(runtime, hand.ulid)


async def test_a11b_a_writer_that_finds_its_own_entry_is_done(runtime: Runtime) -> None:
    hand = await begun(runtime)
    step = await hand.step_id()
    before = hand.state
    first = await hand.append(passed(step))
    after, hand.state = hand.state, before
    once = await contents(runtime, hand)

    again = await hand.append(passed(step))

    assert first is not None
    assert again is not None
    assert again.at == first.at
    assert hand.state == after
    assert await contents(runtime, hand) == once


async def test_a11b_an_own_entry_with_another_one_after_it_does_not_count_as_done(
    runtime: Runtime,
) -> None:
    hand = await begun(runtime)
    step = await hand.step_id()
    before = hand.state
    await hand.append(passed(step))
    other = await Hand.on(runtime, hand.ulid)
    assert await other.append(NOTED) is not None

    hand.state = before

    assert await hand.append(passed(step)) is None


async def test_a11d_of_two_that_decided_on_the_same_entry_one_is_taken_whole(
    runtime: Runtime,
) -> None:
    first = await begun(runtime)
    second = await Hand.on(runtime, first.ulid)
    steps = [await first.step_id(), await first.step_id()]

    taken = await asyncio.gather(
        first.append(passed(steps[0], "a")), second.append(passed(steps[1], "b"))
    )

    assert [appended is not None for appended in taken].count(True) == 1
    winner = "a" if taken[0] is not None else "b"
    assert await runtime.steps(first.ulid) == [(winner, 1, "succeeded")]
    await assert_sound(runtime, first.ulid)


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_b2_an_append_that_waited_for_another_is_taken_whole_or_not_at_all(
    runtime: Runtime, end: str
) -> None:
    first = await begun(runtime)
    step, wait = await first.step_id(), await first.wait_id()
    data = {"new": True, "type": "wait", "visit": 1, "wait": wait, "kind": "event", "event": "go"}
    await first.append(Entry(kinds.WAIT_OPENED, "w", step, {**data, "match": {}}))
    second = await Hand.on(runtime, first.ulid)
    row = await unapplied(runtime, first)
    fired = {"wait": wait, "outcome": "success", "edge": PLAIN, "event": 1}

    async with runtime.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        assert await first.append(Entry(kinds.WAIT_FIRED, "w", step, fired), connection=connection)
        late = asyncio.create_task(
            second.append(
                Entry(kinds.INBOX_APPLIED, data={"inbox": row, "kind": "note"}),
                Entry(kinds.WAIT_TIMED_OUT, "w", step, {**fired, "outcome": "late"}),
            )
        )
        await waiting_for_a_lock(runtime)
        await (transaction.commit() if end == "commit" else transaction.rollback())
        taken = await late

    status = await runtime.pool.fetchval("SELECT status FROM workflow_waits")
    journal = await runtime.journal(first.ulid)
    applied = await runtime.pool.fetchval(
        "SELECT applied_at IS NOT NULL FROM workflow_inbox WHERE id = $1", row
    )
    if end == "commit":
        assert (taken, status, journal[-1], applied) == (None, "fired", kinds.WAIT_FIRED, False)
    else:
        assert taken is not None
        assert (status, journal[-1], applied) == ("timed_out", kinds.WAIT_TIMED_OUT, True)
    await assert_sound(runtime, first.ulid)


async def test_b2_b7_an_append_that_stamps_a_row_which_is_stamped_leaves_nothing(
    runtime: Runtime,
) -> None:
    hand = await begun(runtime)
    row = await unapplied(runtime, hand)
    note = Entry(kinds.INBOX_APPLIED, data={"inbox": row, "kind": "note"})
    assert await hand.append(note) is not None
    before = await contents(runtime, hand)

    with pytest.raises(RowMissing, match="0 of the inbox rows"):
        await hand.append(note, passed(await hand.step_id()))

    assert await contents(runtime, hand) == before


async def test_b6b_an_append_does_not_count_the_inbox_rows_that_it_stamps(runtime: Runtime) -> None:
    hand = await begun(runtime)
    start = await runtime.pool.fetchval("SELECT id FROM workflow_inbox WHERE kind = 'start'")
    rows = [await unapplied(runtime, hand), await unapplied(runtime, hand)]

    def note(row: int) -> Entry:
        return Entry(kinds.INBOX_APPLIED, data={"inbox": row, "kind": "note"})

    first = await hand.append(note(start), note(rows[0]))
    second = await hand.append(note(rows[1]))

    assert first is not None
    assert first.more
    assert second is not None
    assert not second.more


async def test_b6c_a_row_that_an_append_could_not_see_is_left_to_its_own_poke(
    runtime: Runtime,
) -> None:
    hand = await begun(runtime)
    start = await runtime.pool.fetchval("SELECT id FROM workflow_inbox")
    async with runtime.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT 1 FROM workflow_instances FOR NO KEY UPDATE")
        append = asyncio.create_task(
            hand.append(Entry(kinds.INBOX_APPLIED, data={"inbox": start, "kind": "start"}))
        )
        await waiting_for_a_lock(runtime)
        row = await unapplied(runtime, hand)
        await transaction.commit()

    appended = await append

    assert appended is not None
    assert not appended.more
    left = await runtime.pool.fetch(
        "SELECT id FROM workflow_inbox WHERE applied_at IS NULL AND poked_at IS NULL"
    )
    assert [r["id"] for r in left] == [row]


OPENERS: dict[str, tuple[str, dict[str, Any]]] = {
    "scheduled": (kinds.STEP_SCHEDULED, {}),
    "retrying": (kinds.STEP_SCHEDULED, {"due_at": "2030-01-01T00:00:00+00:00", "attempt": 2}),
    "running": (kinds.STEP_STARTED, {"new": True, "token": "t" * 26, "worker": "w" * 26}),
    "passed": (kinds.STEP_PASSED, {"new": True, "outcome": "success", "edge": PLAIN}),
    "waiting": (kinds.WAIT_OPENED, {"new": True, "kind": "event", "event": "go", "match": {}}),
}
FOLLOWERS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "scheduled": (
        (kinds.STEP_STARTED, {"token": "t" * 26, "worker": "w" * 26}),
        (kinds.STEP_PASSED, {"outcome": "success", "edge": PLAIN}),
        (kinds.WAIT_OPENED, {"kind": "timer", "due_at": "2030-01-01T00:00:00+00:00"}),
        (kinds.STEP_FAILED, {"code": "expression_failed", "final": True, "edge": PLAIN}),
    ),
    "running": (
        (kinds.STEP_SUCCEEDED, {"outcome": "success", "edge": PLAIN}),
        (kinds.STEP_FAILED, {"code": "step_failed", "retryable": True, "final": False}),
        (kinds.STEP_FAILED, {"code": "step_failed", "final": True, "edge": PLAIN}),
        (kinds.STEP_LOST, {"counted": True, "final": False}),
        (kinds.STEP_LOST, {"counted": True, "final": True, "code": "worker_lost", "edge": PLAIN}),
    ),
    "waiting": (
        (kinds.WAIT_FIRED, {"outcome": "success", "edge": PLAIN, "event": 7}),
        (kinds.WAIT_TIMED_OUT, {"outcome": "timed_out", "edge": PLAIN}),
    ),
}
ROWS: dict[str, dict[str, Any]] = {
    kinds.STEP_STARTED: {"input": {"a": 1}, "call": {"a": 1}},
    kinds.STEP_PASSED: {"output": [1]},
    kinds.STEP_SUCCEEDED: {"output": {"b": 2}},
    kinds.STEP_FAILED: {"message": "no"},
    kinds.WAIT_FIRED: {"output": {"c": 3}},
}
ENDS: list[tuple[str, dict[str, Any]]] = [
    (kinds.COMPLETED, {}),
    (kinds.CANCELLED, {}),
    (kinds.FAILED, {"code": "step_failed"}),
]


def pairs() -> Sequence[tuple[str, tuple[str, dict[str, Any]]]]:
    followers = {**FOLLOWERS, "retrying": FOLLOWERS["scheduled"], "passed": ()}
    return [(opener, then) for opener in OPENERS for then in [*followers[opener], *ENDS]]


def entry_of(kind: str, data: dict[str, Any], step: int, wait: int) -> Entry:
    common: dict[str, Any] = {"type": "action", "visit": 1}
    if kind in (kinds.WAIT_OPENED, kinds.WAIT_FIRED, kinds.WAIT_TIMED_OUT):
        common["wait"] = wait
    on = None if kind in {kinds.COMPLETED, kinds.CANCELLED, kinds.FAILED} else step
    return Entry(kind, "n", on, {**common, **data}, ROWS.get(kind, {}))


async def documented(runtime: Runtime, hand: Hand) -> list[Any]:
    ignored = "'{id,instance_id,step_run_id,ulid,claim_token,idempotency_key,lock_version}'::text[]"
    stamps = "'{created_at,updated_at,started_at,finished_at,ended_at,claimed_at,fired_at}'"
    rows: list[Any] = []
    for table, key in (
        ("workflow_instances", "id"),
        ("workflow_step_runs", "instance_id"),
        ("workflow_waits", "instance_id"),
    ):
        rows += (
            await runtime.pool.fetchval(
                f"SELECT array_agg((to_jsonb(t) - {ignored} - {stamps}::text[])::text || (SELECT"
                f" string_agg(k, ' ' ORDER BY k) FROM jsonb_each(to_jsonb(t)) e(k, v)"
                f" WHERE k = ANY ({stamps}::text[]) AND v <> 'null')) FROM {table} t"
                f" WHERE {key} = $1",
                hand.id,
            )
            or []
        )
    return rows


async def test_b13_two_entries_on_one_row_in_one_append_leave_what_two_appends_leave(
    runtime: Runtime,
) -> None:
    version = await runtime.publish(chain(action("n", "test.a")))
    together: dict[Any, list[Any]] = {}
    apart: dict[Any, list[Any]] = {}
    for opener, (kind, data) in pairs():
        for found, at_once in ((together, True), (apart, False)):
            hand = await Hand.on(runtime, await runtime.start(version))
            await hand.append(STARTED)
            step, wait = await hand.step_id(), await hand.wait_id()
            entries = [
                entry_of(*OPENERS[opener], step, wait),
                entry_of(kind, data, step, wait),
            ]
            for batch in [entries] if at_once else [[entry] for entry in entries]:
                assert await hand.append(*batch) is not None
            await assert_sound(runtime, hand.ulid)
            found[opener, kind, str(data)] = await documented(runtime, hand)

    assert together == apart
    assert len(together) == len(pairs())


async def test_b15_any_number_of_writers_come_through_and_no_entry_is_lost_or_doubled(
    runtime: Runtime,
) -> None:
    ulid = (await begun(runtime)).ulid

    async def write(number: int) -> None:
        done = 0
        while done < 8:
            hand = await Hand.on(runtime, ulid)
            if await hand.append(passed(await hand.step_id(), f"w{number}-{done}")) is not None:
                done += 1

    await asyncio.gather(*(write(number) for number in range(6)))

    assert len(set(await runtime.steps(ulid))) == 48
    assert (await runtime.instance(ulid))["lock_version"] == 49
    assert (await runtime.instance(ulid))["status"] not in ENDED
    await assert_sound(runtime, ulid)
