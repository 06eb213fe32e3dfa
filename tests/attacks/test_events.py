from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from sqlalchemy import text
from ulid import ULID

from adapter.client.almanac import Almanac
from adapter.records.connecting import make_database
from adapter.records.look import BATCH
from adapter.records.relaying import Relaying
from adapter.services.matching import MatchReport, match_events
from tests.attacks.seams import PATIENCE, Held, assert_sound
from tests.driving.turns import take_turn
from tests.execution.runtime import Runtime, action, chain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

MATCH = {"case": "${ trigger.case }"}


def wait(node: str = "w", event: str = "go", **config: Any) -> dict[str, Any]:
    return {"id": node, "type": "wait", "config": {"event": event, "match": MATCH, **config}}


@pytest.fixture
def database(runtime: Runtime) -> Iterator[Engine]:
    engine = make_database(runtime.settings)
    yield engine
    engine.dispose()


@pytest.fixture
def almanac(runtime: Runtime) -> Iterator[Almanac]:
    with Almanac(runtime.settings, registry=runtime.registry) as almanac:
        yield almanac


def match(runtime: Runtime, database: Engine, limit: int = 500) -> MatchReport:
    """One batch of the relay's."""
    with database.begin() as connection:
        return match_events(connection, runtime.settings, limit)


@contextmanager
def opened(database: Engine) -> Iterator[Connection]:
    """A transaction that the test ends; whatever would block in it fails instead."""
    with database.connect() as connection:
        connection.execute(text("SET lock_timeout = '3s'"))
        connection.commit()
        with connection.begin():
            yield connection


def published(almanac: Almanac, *nodes: dict[str, Any], trigger: Any = None) -> str:
    document = chain(*nodes)
    document["key"] = str(ULID())
    if trigger is not None:
        document["nodes"][0]["config"] = trigger
    almanac.publish(document)
    return str(document["key"])


async def taken(runtime: Runtime, ulid: str) -> list[Any]:
    """What the waits of an instance took, in the order in which they were opened."""
    rows = await runtime.pool.fetch(
        "SELECT (w.payload -> 'n')::int AS n FROM workflow_waits w JOIN workflow_instances i"
        " ON i.id = w.instance_id WHERE i.ulid = $1 ORDER BY w.id",
        ulid,
    )
    return [row["n"] for row in rows]


async def test_a6a_an_event_that_comes_before_its_wait_is_not_lost(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    gate = Held()
    runtime.registry.action("test.a", timeout=PATIENCE)(gate.handler)
    ulid = almanac.start(published(almanac, action("a", "test.a"), wait()), {"case": 1}).ulid
    turn = asyncio.create_task(take_turn(runtime.process(), ulid))
    await gate.reached()

    almanac.emit("go", {"case": 1, "n": 7})
    report = match(runtime, database)
    gate.let_go()

    assert (report.events, report.deliveries) == (1, 0)
    assert (await turn).ended
    assert await taken(runtime, ulid) == [7]


@pytest.mark.parametrize("order", ["event match wait", "event wait match", "wait event match"])
async def test_a6b_whatever_comes_first_the_wait_gets_its_event(
    runtime: Runtime, database: Engine, almanac: Almanac, order: str
) -> None:
    ulid = almanac.start(published(almanac, wait()), {"case": 1}).ulid
    deps = runtime.process()

    with opened(database) as caller:
        almanac.emit("go", {"case": 1, "n": 7}, connection=caller)
        if order == "wait event match":
            assert (await runtime.finish(deps, ulid)).status == "waiting"
    with opened(database) as relay:
        if order != "event wait match":
            assert match_events(relay, runtime.settings).events == 1
        if order != "wait event match":
            await asyncio.wait_for(runtime.finish(deps, ulid), PATIENCE)
    match(runtime, database)
    await runtime.finish(deps, ulid)

    assert await taken(runtime, ulid) == [7]
    assert (await runtime.instance(ulid))["status"] == "completed"
    await assert_sound(runtime, ulid)


async def test_a6c_a_caller_s_open_transaction_holds_up_no_time_out(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    ulid = almanac.start(published(almanac, wait(timeout="PT0S")), {"case": 1}).ulid

    with opened(database) as caller:
        almanac.emit("go", {"case": 1, "n": 7}, connection=caller)
        await asyncio.wait_for(runtime.finish(runtime.process(), ulid), PATIENCE)

    status = await runtime.pool.fetchval("SELECT status FROM workflow_waits")
    assert status == "timed_out"
    assert match(runtime, database) == MatchReport(events=1, deliveries=0, starts=0)


async def test_a6c_a_match_that_is_not_committed_holds_up_no_turn(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    ulid = almanac.start(published(almanac, wait()), {"case": 1}).ulid
    await runtime.finish(runtime.process(), ulid)
    almanac.emit("go", {"case": 1, "n": 7})

    with opened(database) as relay:
        assert match_events(relay, runtime.settings).deliveries == 1
        result = await asyncio.wait_for(take_turn(runtime.process(), ulid), PATIENCE)
    late = await take_turn(runtime.process(), ulid)

    assert (result.ended, late.ended, late.progressed) == (True, True, True)
    assert await taken(runtime, ulid) == [7]
    answer = await runtime.pool.fetchval("SELECT result FROM workflow_inbox WHERE kind = 'event'")
    assert orjson.loads(answer) == {"status": "refused", "reason": "ended"}
    await assert_sound(runtime, ulid)


async def test_a6d_callers_that_emit_in_opposite_orders_do_not_meet(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    for case in (1, 2):
        ulid = almanac.start(published(almanac, wait()), {"case": case}).ulid
        await runtime.finish(runtime.process(), ulid)

    with opened(database) as one, opened(database) as other:
        for connection, cases in ((one, (1, 2)), (other, (2, 1))):
            for case in cases:
                almanac.emit("go", {"case": case}, connection=connection)

    assert match(runtime, database).deliveries == 2


async def test_b1_a_match_is_its_own_reminder_to_poke(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    ulid = almanac.start(published(almanac, wait()), {"case": 1}).ulid
    await runtime.finish(runtime.process(), ulid)
    almanac.emit("go", {"case": 1, "n": 7})

    with database.connect() as dying:
        match_events(dying, runtime.settings)
    assert await runtime.pool.fetchval("SELECT count(matched_at) FROM workflow_events") == 0
    match(runtime, database)

    async with runtime.pool.acquire() as connection:
        claims = await Relaying(runtime.settings).claim_pokes(connection, 10)
    assert [claim.ulid for claim in claims] == [ulid]
    await runtime.finish(runtime.process(), ulid)
    assert await taken(runtime, ulid) == [7]


async def test_b9a_the_lowest_visible_event_is_taken_whichever_was_matched_first(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    ulid = almanac.start(published(almanac, wait("w1"), wait("w2")), {"case": 1}).ulid
    deps = runtime.process()
    await runtime.finish(deps, ulid)
    almanac.emit_many([("go", {"case": 1, "n": 1}), ("go", {"case": 1, "n": 2})])

    with opened(database) as slow:
        assert match_events(slow, runtime.settings, limit=1).deliveries == 1
        assert match(runtime, database).deliveries == 1
        await runtime.finish(deps, ulid)
        assert await taken(runtime, ulid) == [1, 2]
    await runtime.finish(deps, ulid)

    assert await taken(runtime, ulid) == [1, 2]
    assert await runtime.pool.fetchval("SELECT count(*) FROM workflow_inbox") == 3
    await assert_sound(runtime, ulid)


async def test_b9b_one_event_goes_to_one_wait_of_an_instance(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    ulid = almanac.start(published(almanac, wait("w1"), wait("w2")), {"case": 1}).ulid
    await runtime.finish(runtime.process(), ulid)
    almanac.emit("go", {"case": 1, "n": 1})

    for _ in range(3):
        match(runtime, database)
        assert (await runtime.finish(runtime.process(), ulid)).status == "waiting"
        await runtime.pool.execute("UPDATE workflow_events SET matched_at = NULL")

    assert await taken(runtime, ulid) == [1, None]
    assert await runtime.pool.fetchval("SELECT count(event_id) FROM workflow_inbox") == 1
    almanac.emit("go", {"case": 1, "n": 2})
    match(runtime, database)
    await runtime.finish(runtime.process(), ulid)
    assert await taken(runtime, ulid) == [1, 2]


async def test_b9c_an_event_whose_transaction_was_open_at_the_start_counts(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    key = published(almanac, wait())
    almanac.emit("go", {"case": 1, "n": 0})
    with opened(database) as caller:
        almanac.emit("go", {"case": 1, "n": 7}, connection=caller)
        ulid = almanac.start(key, {"case": 1}).ulid

    await runtime.finish(runtime.process(), ulid)

    assert await taken(runtime, ulid) == [7]
    assert await runtime.pool.fetchval(
        "SELECT e.created_at < i.created_at FROM workflow_events e, workflow_instances i"
        " WHERE (e.payload -> 'n')::int = 7"
    )


async def test_b9c_an_event_of_the_transaction_that_starts_the_instance_counts(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    key = published(almanac, wait())
    with opened(database) as caller:
        caller.execute(text("SELECT pg_current_xact_id()"))
        almanac.emit("other", {})
        ulid = almanac.start(key, {"case": 1}, connection=caller).ulid
        almanac.emit("go", {"case": 1, "n": 7}, connection=caller)

    await runtime.finish(runtime.process(), ulid)

    assert await taken(runtime, ulid) == [7]


async def test_b9d_an_instance_that_an_event_starts_sees_the_events_after_it(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    opening = str(ULID())
    published(almanac, wait("w1"), wait("w2"), trigger={"type": "event", "event": opening})
    for key, n in (("go", 0), (opening, 1), ("go", 2), ("go", 3)):
        almanac.emit(key, {"case": 1, "n": n})

    for _ in range(4):
        match(runtime, database, limit=1)
    ulid = await runtime.pool.fetchval("SELECT ulid FROM workflow_instances")
    await runtime.finish(runtime.process(), ulid)

    assert await taken(runtime, ulid) == [2, 3]


async def test_b9e_a_row_that_is_committed_after_a_later_one_was_applied_is_applied_too(
    runtime: Runtime, almanac: Almanac
) -> None:
    ulid = almanac.start(published(almanac, wait()), {"case": 1}).ulid
    deps = runtime.process()
    await runtime.finish(deps, ulid)
    insert = "INSERT INTO workflow_inbox (instance_id, kind) SELECT id, 'n' FROM workflow_instances"
    async with runtime.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(insert)
        await runtime.pool.execute(insert)
        await take_turn(deps, ulid)
        await transaction.commit()

    await take_turn(deps, ulid)

    applied = await runtime.pool.fetch(
        "SELECT applied_at FROM workflow_inbox WHERE kind = 'n' ORDER BY id"
    )
    assert applied[0]["applied_at"] > applied[1]["applied_at"]


@pytest.mark.parametrize("waits", ["before", "after"])
async def test_b16_an_event_emitted_before_the_wait_s_fields_were_known_is_found(
    runtime: Runtime, database: Engine, almanac: Almanac, waits: str
) -> None:
    deps = runtime.process()
    with opened(database) as caller:
        almanac.emit("go", {"case": 1, "n": 7}, connection=caller)
        ulid = almanac.start(published(almanac, wait()), {"case": 1}).ulid
        if waits == "before":
            await runtime.finish(deps, ulid)

    if waits == "before":
        assert match(runtime, database).deliveries == 1
    await runtime.finish(deps, ulid)

    assert await taken(runtime, ulid) == [7]


async def test_events_that_do_not_meet_a_wait_s_condition_hide_none_that_does(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    key = published(almanac, wait(condition="event.n > 0"))
    ulid = almanac.start(key, {"case": 1}).ulid
    deps = runtime.process()
    await runtime.finish(deps, ulid)
    almanac.emit_many([("go", {"case": 1, "n": 0})] * (2 * BATCH) + [("go", {"case": 1, "n": 7})])

    match(runtime, database)
    await runtime.finish(deps, ulid)

    assert await taken(runtime, ulid) == [7]


async def test_a_caller_s_rollback_leaves_nothing(
    runtime: Runtime, database: Engine, almanac: Almanac
) -> None:
    key = published(almanac, wait())
    tables = ("definitions", "instances", "inbox", "events", "event_fields", "idempotency_keys")

    async def counts() -> list[int]:
        return [
            await runtime.pool.fetchval(f"SELECT count(*) FROM workflow_{table}")
            for table in tables
        ]

    before = await counts()
    with database.connect() as caller:
        almanac.start(key, {"case": 1}, idempotency_key="once", connection=caller)
        almanac.start_many(key, [{"case": 2}, {"case": 3}], connection=caller)
        almanac.emit("go", {"case": 1}, connection=caller)
        other = chain(wait(match={"other": 1}))
        almanac.publish({**other, "key": str(ULID())}, connection=caller)
        caller.rollback()

    assert await counts() == before
    assert match(runtime, database) == MatchReport(0, 0, 0)
