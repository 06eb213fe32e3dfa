from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapter.execution import instance
from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import fold
from adapter.interpreter.entries import Entry
from adapter.interpreter.version import CURRENT
from adapter.records.load import Loader, NewerJournal
from tests.attacks.seams import StoppedAppender, assert_sound, record
from tests.driving.turns import take_turn
from tests.execution.runtime import Runtime, action, chain, graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.execution.deps import TurnDeps
    from adapter.execution.turned import TurnResult

STEP_BY_STEP = timedelta(0)


class Counted:
    """A connection that counts what is asked of it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.asked = 0

    async def fetch(self, query: str, *arguments: Any) -> Any:
        self.asked += 1
        return await self._connection.fetch(query, *arguments)


def counting(limit: int) -> dict[str, Any]:
    """Counts in a loop of nodes that take no time, then runs an action."""
    return graph(
        {"id": "count", "type": "set", "config": {"values": {"n": "${ state.n + 1 }"}}},
        {"id": "zero", "type": "set", "config": {"values": {"n": 0}}},
        {"id": "again", "type": "decision", "config": {"on": f"${{ state.n < {limit} }}"}},
        action("last", "test.last", input={"n": "${ state.n }"}),
        edges=[
            ("trigger", "zero"),
            ("zero", "count"),
            ("count", "again"),
            {"from": "again", "to": "count", "on": "true"},
            {"from": "again", "to": "last", "on": "false"},
        ],
    )


def echo(runtime: Runtime, name: str) -> None:
    async def handler(**values: Any) -> dict[str, Any]:
        return values

    runtime.registry.action(name)(handler)


async def seqs(runtime: Runtime, ulid: str, kind: str) -> list[int]:
    rows = await runtime.pool.fetch(
        "SELECT j.seq FROM workflow_journal j JOIN workflow_instances i ON i.id = j.instance_id"
        " WHERE i.ulid = $1 AND j.kind = $2 ORDER BY j.seq",
        ulid,
        kind,
    )
    return [row["seq"] for row in rows]


async def test_b7_a_load_is_one_statement_with_everything_in_it(runtime: Runtime) -> None:
    echo(runtime, "test.a")
    ulid = await runtime.begun(chain(action("a", "test.a")))
    await runtime.finish(runtime.process(), ulid)
    instance = (await runtime.instance(ulid))["id"]
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind) VALUES ($1, 'note')", instance
    )

    async with runtime.pool.acquire() as connection:
        counted: Any = Counted(connection)
        for since in (0, 2):
            loaded = await Loader(runtime.settings).load(counted, ulid, since)
            assert (loaded.seq, len(loaded.entries)) == (5, 5 - since)
            assert [arrived.kind for arrived in loaded.inbox] == ["note"]

    assert counted.asked == 2


async def test_b7_two_turns_that_loaded_the_same_command_apply_it_once(runtime: Runtime) -> None:
    wait = {"id": "w", "type": "wait", "config": {"event": "go"}}
    ulid = await runtime.begun(chain(wait))
    slow, fast = runtime.process(), runtime.process()
    await runtime.finish(fast, ulid)
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind) SELECT id, 'event' FROM workflow_instances"
    )
    slow.appender = stopped = StoppedAppender(runtime.settings, at=1)

    first = asyncio.create_task(take_turn(slow, ulid))
    await stopped.reached.wait()
    await take_turn(fast, ulid)
    stopped.let_go.set()
    await first

    assert (await runtime.journal(ulid)).count(kinds.INBOX_APPLIED) == 1
    await assert_sound(runtime, ulid)


async def test_a11c_a_process_that_has_seen_more_than_the_record_holds_folds_the_record(
    runtime: Runtime,
) -> None:
    echo(runtime, "test.a")
    echo(runtime, "test.b")
    wait = {"id": "w", "type": "wait", "config": {"event": "go"}}
    document = chain(action("a", "test.a", input={"v": 1}), wait, action("b", "test.b"))
    ulid = await runtime.begun(document)
    deps = runtime.process()
    await runtime.finish(deps, ulid)
    kept = await _dump(runtime)
    await runtime.emit("go", {})
    await _poke_for_event(runtime)
    await runtime.finish(deps, ulid)
    undisturbed = await record(runtime, ulid)

    await _restore(runtime, kept)
    assert (await runtime.finish(deps, ulid)).status == "waiting"
    await runtime.emit("go", {})
    await _poke_for_event(runtime)
    await runtime.finish(deps, ulid)

    assert await record(runtime, ulid) == undisturbed
    await assert_sound(runtime, ulid)


async def test_a11c_a_record_that_was_restored_and_went_another_way_is_folded_anew(
    runtime: Runtime,
) -> None:
    echo(runtime, "test.a")
    read = {"n": "${ steps.w1.output.n }"}
    waits = [{"id": f"w{n}", "type": "wait", "config": {"event": f"go{n}"}} for n in (1, 2)]
    a, b = action("a", "test.a", input=read), action("b", "test.a", input=read)
    ulid = await runtime.begun(chain(waits[0], a, waits[1], b))
    deps, other = runtime.process(), runtime.process()
    await runtime.finish(deps, ulid)
    kept = await _dump(runtime)
    await _emitted(runtime, deps, ulid, "go1", 1)

    await _restore(runtime, kept)
    await _emitted(runtime, other, ulid, "go1", 2)
    result = await _emitted(runtime, deps, ulid, "go2", 3)

    assert result.ended
    outputs = await runtime.pool.fetch(
        "SELECT output FROM workflow_step_runs WHERE node_type = 'action'"
    )
    assert [row["output"] for row in outputs] == ['{"n": 2}'] * 2
    await assert_sound(runtime, ulid)


async def _emitted(runtime: Runtime, deps: TurnDeps, ulid: str, key: str, n: int) -> TurnResult:
    event = await runtime.emit(key, {"n": n})
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind, event_id)"
        " SELECT id, 'event', $1 FROM workflow_instances",
        event,
    )
    return await runtime.finish(deps, ulid)


async def _poke_for_event(runtime: Runtime) -> None:
    await runtime.pool.execute(
        "INSERT INTO workflow_inbox (instance_id, kind, event_id)"
        " SELECT i.id, 'event', e.id FROM workflow_instances i, workflow_events e"
    )


TABLES = ("instances", "inbox", "journal", "step_runs", "waits")


async def _dump(runtime: Runtime) -> dict[str, Any]:
    return {
        table: await runtime.pool.fetchval(f"SELECT jsonb_agg(to_jsonb(t)) FROM workflow_{table} t")
        for table in TABLES
    }


async def _restore(runtime: Runtime, kept: dict[str, Any]) -> None:
    await runtime.pool.execute("DELETE FROM workflow_instances; DELETE FROM workflow_events")
    for table, rows in kept.items():
        name = f"workflow_{table}"
        columns = await runtime.pool.fetchval(
            "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name = $1 AND is_generated = 'NEVER'",
            name,
        )
        await runtime.pool.execute(
            f"INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns}"
            f" FROM jsonb_populate_recordset(NULL::{name}, $1)",
            rows or "[]",
        )


async def test_a20_a_process_that_knows_nothing_goes_on_where_another_stopped(
    runtime: Runtime,
) -> None:
    echo(runtime, "test.a")
    steps = [action(f"s{n}", "test.a", input={"n": f"${{ trigger.n + {n} }}"}) for n in range(6)]
    document = chain(*steps)
    version = await runtime.publish(document)
    one, many = await runtime.start(version, {"n": 1}), await runtime.start(version, {"n": 1})
    await runtime.finish(runtime.process(), one)

    result = await take_turn(runtime.process(), many, _already_set())
    while result.more:
        result = await take_turn(runtime.process(stretch=STEP_BY_STEP), many)

    assert await record(runtime, many) == await record(runtime, one)
    await assert_sound(runtime, many)


def _already_set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def test_a20_what_a_decision_evaluated_stands_in_its_entry(runtime: Runtime) -> None:
    delay = {"id": "d", "type": "delay", "config": {"for": "${ trigger.span }"}}
    ulid = await runtime.begun(chain(delay), {"span": "PT1H"})
    await runtime.finish(runtime.process(), ulid)

    async with runtime.pool.acquire() as connection:
        loads = [await Loader(runtime.settings).load(connection, ulid) for _ in range(2)]
    dues = {wait.due_at for load in loads for wait in fold(load.entries).waits.values()}

    assert dues == {await runtime.pool.fetchval("SELECT due_at FROM workflow_waits")}


@pytest.mark.parametrize("kind", [kinds.INBOX_APPLIED, "braided"])
async def test_a21_b20c_a_turn_that_meets_a_newer_entry_writes_nothing(
    runtime: Runtime, kind: str
) -> None:
    echo(runtime, "test.a")
    ulid = await runtime.begun(chain(action("a", "test.a")))
    version = CURRENT + 1 if kind == kinds.INBOX_APPLIED else CURRENT
    await _write_newer(runtime, ulid, kind, version)

    with pytest.raises(NewerJournal, match="upgrade"):
        await take_turn(runtime.process(), ulid)

    assert await runtime.journal(ulid) == [kind]
    assert await runtime.steps(ulid) == []


async def test_b20c_a_process_with_a_cached_state_refuses_a_newer_entry_too(
    runtime: Runtime,
) -> None:
    wait = {"id": "w", "type": "wait", "config": {"event": "go"}}
    ulid = await runtime.begun(chain(wait))
    deps = runtime.process()
    await runtime.finish(deps, ulid)
    before = await runtime.journal(ulid)
    await _write_newer(runtime, ulid, "braided", CURRENT + 1)

    for _ in range(2):
        with pytest.raises(NewerJournal):
            await take_turn(deps, ulid)

    assert await runtime.journal(ulid) == [*before, "braided"]


async def _write_newer(runtime: Runtime, ulid: str, kind: str, interpreter: int) -> None:
    await runtime.pool.execute(
        "WITH i AS (UPDATE workflow_instances SET lock_version = lock_version + 1 WHERE ulid = $1"
        " RETURNING id, lock_version) INSERT INTO workflow_journal (instance_id, seq, kind, data,"
        " writer, interpreter, at) SELECT id, lock_version, $2, '{}', $3, $4, now() FROM i",
        ulid,
        kind,
        "0" * 26,
        interpreter,
    )


async def test_b20a_a_snapshot_stands_in_for_all_entries_before_it(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert instance.SNAPSHOT_EVERY == 1_000
    monkeypatch.setattr(instance, "SNAPSHOT_EVERY", 50)
    echo(runtime, "test.last")
    ulid = await runtime.begun(counting(150))

    await runtime.finish(runtime.process(), ulid)

    snapshots = await seqs(runtime, ulid, kinds.SNAPSHOT)
    assert len(snapshots) > 2
    async with runtime.pool.acquire() as connection:
        loaded = await Loader(runtime.settings).load(connection, ulid)
    assert loaded.since == snapshots[-1] - 1
    entries = await _every_entry(runtime, ulid)
    plain = [entry for entry in entries if entry.kind != kinds.SNAPSHOT]
    assert fold(loaded.entries).values == fold(plain).values == {"n": 150}
    assert fold(loaded.entries).visits == fold(plain).visits
    assert fold(loaded.entries).results == fold(plain).results
    await assert_sound(runtime, ulid)


async def test_b20a_turns_of_fresh_processes_go_on_from_snapshots_as_one_process_does(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo(runtime, "test.last")
    version = await runtime.publish(counting(200))
    plain, snapped = await runtime.start(version), await runtime.start(version)
    await runtime.finish(runtime.process(), plain)

    monkeypatch.setattr(instance, "SNAPSHOT_EVERY", 30)
    result = await take_turn(runtime.process(stretch=STEP_BY_STEP), snapped)
    while result.more:
        result = await take_turn(runtime.process(stretch=STEP_BY_STEP), snapped)

    assert await record(runtime, snapped) == await record(runtime, plain)
    assert len(await seqs(runtime, snapped, kinds.SNAPSHOT)) > 2
    assert await seqs(runtime, plain, kinds.SNAPSHOT) == []


async def _every_entry(runtime: Runtime, ulid: str) -> Sequence[Any]:
    """All entries, the loader being asked from the first one on."""
    async with runtime.pool.acquire() as connection:
        first = await connection.fetchrow(
            "SELECT * FROM workflow_journal WHERE seq = 1 AND instance_id ="
            " (SELECT id FROM workflow_instances WHERE ulid = $1)",
            ulid,
        )
        rest = await Loader(runtime.settings).load(connection, ulid, since=1)
    return [Entry(first["kind"], data=orjson.loads(first["data"])), *rest.entries]
