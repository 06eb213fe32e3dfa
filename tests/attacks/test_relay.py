from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from adapter.client.almanac import Almanac
from adapter.errors import Unavailable
from adapter.interpreter import entries as kinds
from adapter.records.relaying import Relaying
from temporal_workflows.contracts import workflow_id
from temporal_workflows.relay import POKE_BATCH, Relay
from temporal_workflows.worker import running_worker
from tests.attacks.driving import Driven, Turns, reaches
from tests.attacks.seams import assert_sound
from tests.driving.parts import turn_activities
from tests.execution.runtime import Runtime, chain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from temporal_workflows.dev.stack import Stack

WAIT = {"id": "w", "type": "wait", "config": {"event": "go"}}
OTHER = "0" * 25


class Pokes:
    """An engine that only keeps what it was asked."""

    def __init__(self, then: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.asked: list[tuple[str, str]] = []
        self._then = then

    async def start(self, ulid: str, labels: object = None) -> None:
        await self._ask("start", ulid)

    async def poke(self, ulid: str, labels: object = None) -> None:
        await self._ask("poke", ulid)

    async def _ask(self, what: str, ulid: str) -> None:
        self.asked.append((what, ulid))
        if self._then is not None:
            await self._then(ulid)


async def nothing() -> int:
    return 0


def relay_of(runtime: Runtime, engine: Any) -> Relay:
    return Relay(runtime.settings, runtime.pool, engine, nothing)


async def note(runtime: Runtime, ulid: str, count: int = 1) -> None:
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind) SELECT id, 'note' FROM workflow_instances,"
        " generate_series(1, $2) WHERE ulid = $1",
        ulid,
        count,
    )


async def begun(runtime: Runtime) -> str:
    """An instance that waits for an event, its start applied."""
    ulid = await runtime.begun(chain(WAIT))
    await runtime.finish(runtime.process(), ulid)
    return ulid


async def age(runtime: Runtime, since: str, poked: str) -> None:
    """Sets when all unapplied rows were written and poked: seconds ago, as intervals."""
    await runtime.pool.execute(
        "UPDATE workflow_inbox SET created_at = clock_timestamp() - $1::text::interval,"
        " poked_at = clock_timestamp() - $2::text::interval WHERE applied_at IS NULL",
        since,
        poked,
    )


async def delivered(runtime: Runtime, ulid: str) -> None:
    """Emits the event that the instance waits for, as if it had been matched."""
    event = await runtime.emit("go", {})
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind, event_id) SELECT id, 'event', $2"
        " FROM workflow_instances WHERE ulid = $1",
        ulid,
        event,
    )


async def test_b8a_a_row_that_is_written_during_its_instance_s_poke_is_poked_too(
    runtime: Runtime,
) -> None:
    ulid = await begun(runtime)
    await note(runtime, ulid)

    async def write(_: str) -> None:
        if len(engine.asked) == 1:
            await note(runtime, ulid)

    engine = Pokes(write)
    relay = relay_of(runtime, engine)
    for _ in range(3):
        await relay.poke_batch()

    assert engine.asked == [("poke", ulid)] * 2


async def test_a4b_b8d_many_rows_of_one_instance_are_one_poke(runtime: Runtime) -> None:
    ulid = await begun(runtime)
    await note(runtime, ulid, count=5)
    engine = Pokes()

    await asyncio.gather(*(relay_of(runtime, engine).poke_batch() for _ in range(4)))

    assert engine.asked == [("poke", ulid)]


async def test_b8d_relays_claim_different_rows(runtime: Runtime) -> None:
    ulids = [await begun(runtime) for _ in range(2)]
    await note(runtime, ulids[0])
    async with runtime.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        first = await Relaying(runtime.settings).claim_pokes(connection, 10)
        await note(runtime, ulids[1])
        engine = Pokes()
        await asyncio.wait_for(relay_of(runtime, engine).poke_batch(), 10)
        await transaction.rollback()

    assert [claim.ulid for claim in first] == [ulids[0]]
    assert engine.asked == [("poke", ulids[1])]
    await relay_of(runtime, engine).poke_batch()
    assert engine.asked[1:] == [("poke", ulids[0])]


async def test_b8b_a_signal_after_a_start_whose_relay_died_still_begins_the_instance(
    runtime: Runtime,
) -> None:
    ulid = await runtime.begun(chain(WAIT))
    async with runtime.pool.acquire() as connection:
        dead = await Relaying(runtime.settings).claim_starts(connection, 10)
    assert [claim.ulid for claim in dead] == [ulid]
    await note(runtime, ulid)
    engine = Pokes()
    relay = relay_of(runtime, engine)

    await relay.start_batch()
    await relay.poke_batch()
    await age(runtime, "7 seconds", "6 seconds")
    await relay.again_batch()

    assert engine.asked == [("poke", ulid)] * 2


@pytest.mark.parametrize(
    ("since", "poked", "again"),
    [
        ("5 seconds", "4 seconds", False),
        ("7 seconds", "6 seconds", True),
        ("20 seconds", "9 seconds", False),
        ("20 seconds", "11 seconds", True),
        ("2 hours", "4 minutes", False),
        ("2 hours", "6 minutes", True),
    ],
)
async def test_b8c_a_row_that_stays_unapplied_is_poked_again_at_doubling_distances(
    runtime: Runtime, since: str, poked: str, again: bool
) -> None:
    ulid = await begun(runtime)
    await note(runtime, ulid)
    await age(runtime, since, poked)
    engine = Pokes()
    relay = relay_of(runtime, engine)

    for _ in range(2):
        await relay.again_batch()

    assert engine.asked == [("poke", ulid)] * again


async def test_b8e_a_command_never_queues_behind_starts(runtime: Runtime) -> None:
    ulid = await begun(runtime)
    version = (await runtime.instance(ulid))["version_id"]
    for _ in range(POKE_BATCH + 1):
        await runtime.start(version)
    await note(runtime, ulid)
    engine = Pokes()

    await relay_of(runtime, engine).poke_batch()

    assert engine.asked == [("poke", ulid)]


SWEPT = {
    "a wait that is due": "UPDATE workflow_waits SET due_at = now() - interval '20 seconds'",
    "a retry that is due": "UPDATE workflow_step_runs SET status = 'retrying',"
    " scheduled_for = now() - interval '20 seconds' WHERE status = 'waiting'",
    "a step that nobody began": "UPDATE workflow_step_runs SET status = 'scheduled',"
    " updated_at = now() - interval '20 seconds' WHERE status = 'waiting'",
    "a step that nobody ended": "UPDATE workflow_step_runs SET status = 'running',"
    " updated_at = now() - interval '20 seconds' WHERE status = 'waiting'",
}


@pytest.mark.parametrize("left", list(SWEPT))
async def test_b8c_the_sweep_finds_what_no_inbox_row_tells_of(runtime: Runtime, left: str) -> None:
    ulid = await begun(runtime)
    engine = Pokes()
    relay = relay_of(runtime, engine)
    await relay.sweep_batch()
    assert engine.asked == []

    await runtime.pool.execute(SWEPT[left])
    await relay.sweep_batch()

    assert engine.asked == [("poke", ulid)]


async def test_b8c_one_worker_at_a_time_sweeps(runtime: Runtime) -> None:
    await begun(runtime)
    await runtime.pool.execute(SWEPT["a wait that is due"])
    relaying = Relaying(runtime.settings)
    engine = Pokes()
    async with runtime.pool.acquire() as connection, connection.transaction():
        await relaying.sweep(connection, 10)
        await asyncio.wait_for(relay_of(runtime, engine).sweep_batch(), 10)

    assert engine.asked == []


async def test_b8c_what_stays_overdue_keeps_nothing_behind_it_from_the_sweep(
    runtime: Runtime,
) -> None:
    ulid = await begun(runtime)
    version = (await runtime.instance(ulid))["version_id"]
    deps = runtime.process()
    ulids = [ulid, *[await runtime.start(version) for _ in range(POKE_BATCH + 10)]]
    for started in ulids[1:]:
        await runtime.finish(deps, started)
    await runtime.pool.execute(SWEPT["a wait that is due"])
    engine = Pokes()
    relay = relay_of(runtime, engine)

    while await relay.sweep_batch():
        pass

    assert sorted(asked for _, asked in engine.asked) == sorted(ulids)


async def test_a_relay_that_cannot_reach_the_engine_leaves_its_rows_to_the_next_try(
    runtime: Runtime,
) -> None:
    ulid = await runtime.begun(chain(WAIT))

    async def down(_: str) -> None:
        raise Unavailable("nobody there")

    with pytest.raises(Unavailable):
        await relay_of(runtime, Pokes(down)).start_batch()
    engine = Pokes()
    await relay_of(runtime, engine).start_batch()

    assert engine.asked == [("start", ulid)]


def turns_of(runtime: Runtime) -> Turns:
    return Turns(turn_activities(runtime.process()))


async def test_a4a_a6e_b8c_what_was_poked_before_temporal_lost_its_memory_is_applied_after_it(
    runtime: Runtime, temporal_address: str
) -> None:
    driven = await Driven.at(temporal_address)
    relay = relay_of(runtime, driven.engine)
    async with driven.worker(turns_of(runtime)):
        ulid = await runtime.begun(chain(WAIT))
        await relay.start_batch()
        await reaches(runtime, ulid, "waiting")
        await driven.client.get_workflow_handle(workflow_id(ulid)).terminate()
        await delivered(runtime, ulid)
        await age(runtime, "7 seconds", "6 seconds")

        await relay.again_batch()
        await reaches(runtime, ulid, "completed")

    await assert_sound(runtime, ulid)


async def test_b8c_a_timer_that_temporal_forgot_is_swept_up(
    runtime: Runtime, temporal_address: str
) -> None:
    driven = await Driven.at(temporal_address)
    relay = relay_of(runtime, driven.engine)
    async with driven.worker(turns_of(runtime)):
        ulid = await runtime.begun(chain({"id": "d", "type": "delay", "config": {"for": "PT0.2S"}}))
        await runtime.finish(runtime.process(), ulid)
        await runtime.pool.execute(SWEPT["a wait that is due"])

        await relay.sweep_batch()
        await reaches(runtime, ulid, "completed")


async def test_a4_pokes_in_any_order_and_number_apply_each_row_once(
    runtime: Runtime, temporal_address: str
) -> None:
    driven = await Driven.at(temporal_address)
    ulid = await runtime.begun(chain(WAIT))
    await note(runtime, ulid, count=2)
    async with driven.worker(turns_of(runtime)):
        # The signal comes before the start, and the start meets the run that the signal made.
        for call in (driven.engine.poke, driven.engine.poke, driven.engine.start):
            await call(ulid)
        await reaches(runtime, ulid, "waiting")
        await delivered(runtime, ulid)
        await driven.engine.start(ulid)
        await reaches(runtime, ulid, "completed")
        await driven.engine.start(ulid)
        await driven.client.get_workflow_handle(workflow_id(ulid)).result()

    assert (await runtime.journal(ulid)).count(kinds.INBOX_APPLIED) == 3
    await assert_sound(runtime, ulid)


async def test_with_temporal_down_all_is_accepted_a_cancel_is_done_and_the_rest_when_it_is_back(
    runtime: Runtime, stack: Stack, temporal_address: str
) -> None:
    driven = await Driven.at(temporal_address)
    settings = runtime.settings.model_copy(
        update={"temporal_address": temporal_address, "task_queue": driven.queue}
    )
    document = chain({**WAIT, "config": {"event": "go", "match": {"case": "${ trigger.case }"}}})
    with Almanac(settings, registry=runtime.registry) as almanac:
        almanac.publish({**document, "key": driven.queue})
        async with running_worker(settings, runtime.registry):
            before = almanac.start(driven.queue, {"case": 1})
            await reaches(runtime, before.ulid, "waiting")
            await asyncio.to_thread(stack.temporal.stop)
            try:
                almanac.emit("go", {"case": 1})
                during = almanac.start(driven.queue, {"case": 2})
                almanac.emit("go", {"case": 2})
                unwanted = almanac.start(driven.queue, {"case": 3})
                almanac.cancel(unwanted.ulid)
                await reaches(runtime, unwanted.ulid, "cancelled")
            finally:
                await asyncio.to_thread(stack.temporal.start)
            await reaches(runtime, before.ulid, "completed", 40)
            await reaches(runtime, during.ulid, "completed", 40)

    for started in (before, during, unwanted):
        await assert_sound(runtime, started.ulid)
