"""What any record must do: the one in PostgreSQL and the one in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from adapter.errors import NotFound
from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import fold
from adapter.interpreter.events import Claimed, Finished, Tick
from adapter.interpreter.state import State
from adapter.records.append import RowMissing
from adapter.records.load import BrokenJournal
from adapter.records.writers import step_token
from adapter.testing.graphs import EVENT
from tests.testing.sides import memory_side, real_side
from tests.testing.writing import Writing, Written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.testing.sides import Side

ONE, OTHER = "1" * 26, "2" * 26
GO = {"name": "go", "payload": {"n": 1}}


@pytest_asyncio.fixture(params=["postgresql", "memory"])
async def side(request: pytest.FixtureRequest) -> AsyncIterator[Side]:
    if request.param == "memory":
        yield memory_side()
        return
    async with real_side(request.getfixturevalue("database_url")) as side:
        yield side


async def load(side: Side, ulid: str, *known: Any) -> Any:
    return await side.loader.load(side.connection, ulid, *known)


async def decided(
    side: Side, ulid: str, key: str, *events: Any, writer: str = ONE, **more: Any
) -> Written:
    loaded = await load(side, ulid)
    writing = Writing([side], ulid, key, loaded, writer, **more)
    written = await writing.decided([*loaded.inbox, *events])
    assert written is not None
    return written


async def begun(side: Side, key: str, writer: str = ONE) -> str:
    ulid = await side.start(key, {"n": 1, "others": []})
    await (await decided(side, ulid, key, writer=writer)).to(side)
    return ulid


async def state_of(side: Side, ulid: str) -> State:
    loaded = await load(side, ulid)
    return fold(loaded.entries, State(seq=loaded.since))


async def test_an_append_that_was_decided_on_an_older_entry_changes_nothing(side: Side) -> None:
    ulid = await begun(side, "chain")
    (step,) = (await state_of(side, ulid)).steps.values()
    written = await decided(side, ulid, "chain", Finished(step.id, ONE, {"n": 1}))
    before = await side.rows(ulid)
    for expected in (written.expected - 1, written.expected + 1, 0):
        stale = Written(written.instance, expected, written.entries, written.changes, OTHER)
        assert await stale.to(side) is None
        assert await side.rows(ulid) == before
    assert await written.to(side) is not None
    assert (await side.rows(ulid))["instance"]["lock_version"] == written.expected + len(
        written.entries
    )


async def test_a_writer_that_was_taken_before_finds_its_own_entry(side: Side) -> None:
    ulid = await begun(side, "chain")
    (step,) = (await state_of(side, ulid)).steps.values()
    written = await decided(side, ulid, "chain", Finished(step.id, ONE, {"n": 1}))
    first = await written.to(side)
    again = await written.to(side)
    assert (again.at, again.more, again.told) == (first.at, False, True)
    assert await written.to(side, writer=OTHER) is None
    assert await written.to(side, entries=written.entries[:-1]) is None
    assert await written.to(side, entries=[written.entries[-1]] * len(written.entries)) is None


async def test_what_is_unapplied_beside_what_was_stamped_is_told(side: Side) -> None:
    ulid = await side.start("signals", {"n": 1})
    written = await decided(side, ulid, "signals")
    await side.tell(ulid, "signal", GO)
    assert (await written.to(side)).more
    signalled = await decided(side, ulid, "signals")
    assert not (await signalled.to(side)).more
    told = (await side.rows(ulid))["inbox"]
    assert all('"status":"done"' in row for row in told)


async def test_inbox_rows_are_stamped_once_and_with_the_append_or_not_at_all(side: Side) -> None:
    ulid = await side.start("signals", {"n": 1})
    await side.tell(ulid, "signal", GO)
    written = await decided(side, ulid, "signals")
    await written.to(side)
    before = await side.rows(ulid)
    state = await state_of(side, ulid)
    twice = Written(written.instance, state.seq, written.entries, written.changes, OTHER)
    twice.changes.steps.clear()
    twice.changes.waits.clear()
    with pytest.raises(RowMissing):
        await twice.to(side)
    assert await side.rows(ulid) == before


async def test_rows_of_another_instance_cannot_be_stamped(side: Side) -> None:
    ulid, other = await begun(side, "chain"), await side.start("chain", {"n": 1})
    written = await decided(side, other, "chain")
    state = await state_of(side, ulid)
    wrong = Written(await side.id_of(ulid), state.seq, written.entries, written.changes, OTHER)
    wrong.changes.steps.clear()
    with pytest.raises(RowMissing):
        await wrong.to(side)
    assert (await load(side, other)).inbox


async def test_times_of_an_instance_never_run_backwards(side: Side) -> None:
    ulid = await side.start("chain", {"n": 1})
    first = await (await decided(side, ulid, "chain")).to(side)
    await side.age(-3_600)
    (step,) = (await state_of(side, ulid)).steps.values()
    second = await (await decided(side, ulid, "chain", Finished(step.id, ONE, {}))).to(side)
    await side.tell(ulid, "pause", {})
    third = await (await decided(side, ulid, "chain")).to(side)
    assert first.at < second.at < third.at


async def test_a_load_is_one_snapshot_of_journal_inbox_and_row(side: Side) -> None:
    ulid = await begun(side, "signals")
    told = [await side.tell(ulid, "signal", {**GO, "n": n}) for n in range(3)]
    loaded = await load(side, ulid)
    assert (loaded.since, loaded.seq, loaded.writer) == (0, len(loaded.entries), ONE)
    assert [arrived.id for arrived in loaded.inbox] == told
    assert [arrived.payload["n"] for arrived in loaded.inbox] == [0, 1, 2]
    assert [entry.kind for entry in loaded.entries][:2] == [kinds.STARTED, kinds.STEP_PASSED]
    assert loaded.status == "waiting"
    assert loaded.facts.trigger == {"n": 1, "others": []}


async def test_a_load_brings_what_came_after_a_seq_if_its_writer_is_known(side: Side) -> None:
    ulid = await begun(side, "signals")
    seq = (await load(side, ulid)).seq
    await side.tell(ulid, "pause", {})
    await (await decided(side, ulid, "signals", writer=OTHER)).to(side)
    loaded = await load(side, ulid, seq, ONE)
    assert (loaded.since, [entry.kind for entry in loaded.entries]) == (seq, [kinds.PAUSED])
    assert (loaded.writers, loaded.others(ONE), loaded.others(OTHER)) == ({OTHER}, True, False)
    assert (await load(side, ulid, loaded.seq, OTHER)).entries == []
    # Another path, or one that was longer: the record was restored.
    assert (await load(side, ulid, seq, OTHER)).since == 0
    assert (await load(side, ulid, loaded.seq + 5, OTHER)).since == 0


async def test_a_load_of_all_begins_at_the_last_snapshot(side: Side) -> None:
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.projection import Changes
    from adapter.interpreter.snapshots import as_json

    ulid = await begun(side, "signals")
    state = await state_of(side, ulid)
    entry = Entry(kinds.SNAPSHOT, data=as_json(state))
    changes = Changes(instance={"status": state.status})
    instance = await side.id_of(ulid)
    assert await Written(instance, state.seq, [entry], changes, ONE).to(side)
    loaded = await load(side, ulid)
    assert (loaded.since, loaded.seq, len(loaded.entries)) == (state.seq, state.seq + 1, 1)
    assert fold(loaded.entries, State(seq=loaded.since)).steps == state.steps


async def test_an_instance_that_is_not_there_cannot_be_loaded(side: Side) -> None:
    with pytest.raises(NotFound):
        await load(side, "0" * 26)
    assert issubclass(BrokenJournal, Exception)


async def test_a_wait_takes_events_from_its_start_on_in_their_order(side: Side) -> None:
    await side.emit(EVENT, {"n": 1})
    ulid = await begun(side, "events")
    ids = [await side.emit(EVENT, {"n": n}) for n in (2, 3)]
    await side.emit("another.key", {"n": 4})
    state = await state_of(side, ulid)
    (wait,) = state.waits.values()

    async def look(consumed: list[int]) -> list[int]:
        found = await side.looker.look(
            side.connection,
            wait,
            accept_from=state.accept_from,
            consumed=consumed,
            owner_scope="*",
        )
        return [event.id for event in found]

    assert await look([]) == ids
    assert await look(ids[:1]) == ids[1:]


async def test_a_match_tells_each_instance_once_and_each_event_once(side: Side) -> None:
    ulid = await begun(side, "events")
    first = await side.emit(EVENT, {"n": 1})
    await side.emit(EVENT, {"n": 2})
    assert await side.match() == 2
    assert await side.match() == 0
    assert [arrived.event for arrived in (await load(side, ulid)).inbox] == [first]


async def test_a_lease_is_renewed_under_its_token_alone_and_ends(side: Side) -> None:
    ulid = await begun(side, "queued")
    (step,) = (await state_of(side, ulid)).steps.values()
    await (await decided(side, ulid, "queued", Finished(step.id, ONE, {}))).to(side)
    (step,) = (await state_of(side, ulid)).steps.values()
    token, leases = step_token(OTHER), side.leases
    await (await decided(side, ulid, "queued", Claimed(step.id, 60), writer=token)).to(side)
    steps = frozenset({step.id, 77})
    assert await leases.expired(side.connection, steps) == frozenset()
    assert 30 < await leases.rest(side.connection, step.id) <= 60
    assert await leases.rest(side.connection, 77) == 0
    await side.age(100)
    assert await leases.expired(side.connection, steps) == {step.id}
    assert await leases.rest(side.connection, step.id) == 0
    assert not await leases.renew(side.connection, step.id, ONE, 60)
    assert await leases.renew(side.connection, step.id, token, 60)
    assert await leases.expired(side.connection, steps) == frozenset()
    await (await decided(side, ulid, "queued", Finished(step.id, token, {}), writer=token)).to(side)
    assert not await leases.renew(side.connection, step.id, token, 60)


async def test_a_worker_is_gone_when_it_is_silent_and_has_not_left(side: Side) -> None:
    alive, silent, left = ("A" * 26, "B" * 26, "C" * 26)
    for worker in (silent, left):
        await side.beat(worker)
    await side.leave(left)
    await side.age(60)
    await side.beat(alive)
    asked = {alive, silent, left, "D" * 26}
    assert await side.workers.gone(side.connection, asked) == {silent, "D" * 26}


async def test_children_start_with_their_parents_append_and_tell_it_of_their_end(
    side: Side,
) -> None:
    ulid = await side.start("family", {"n": 1})
    appended = await (await decided(side, ulid, "family")).to(side)
    assert appended.told
    (wait,) = (await state_of(side, ulid)).waits.values()
    found = await side.awaited.ended(side.connection, [*wait.instances, "0" * 26], "*")
    assert {other: ended.status for other, ended in found.items()} == {"0" * 26: "unknown"}
    child = wait.instances[0]
    loaded = await load(side, child)
    assert [arrived.kind for arrived in loaded.inbox] == ["start"]
    assert loaded.facts.depth == 1
    await side.tell(child, "cancel", {})
    assert (await (await decided(side, child, "child")).to(side)).told
    (news,) = (await load(side, ulid)).inbox
    assert (news.kind, news.payload) == ("child", {"ulid": child, "status": "cancelled"})
    ended = (await side.awaited.ended(side.connection, [child], "*"))[child]
    read = (await side.awaited.outputs(side.connection, [ended], "*", 1_000))[child]
    assert (read.status, read.output, read.size, read.read) == ("cancelled", None, 0, True)


async def test_children_that_nobody_waits_for_are_told_to_end(side: Side) -> None:
    ulid = await begun(side, "family")
    (wait,) = (await state_of(side, ulid)).waits.values()
    await side.tell(ulid, "cancel", {})
    assert (await (await decided(side, ulid, "family")).to(side)).told
    for child in wait.instances:
        kinds_told = [arrived.kind for arrived in (await load(side, child)).inbox]
        assert kinds_told == ["start", "cancel"]


async def test_nothing_is_told_by_an_end_for_which_nobody_waits(side: Side) -> None:
    ulid = await begun(side, "signals")
    await side.tell(ulid, "cancel", {})
    assert not (await (await decided(side, ulid, "signals")).to(side)).told


async def claimed(side: Side, name: str, *arguments: Any) -> set[str]:
    claims = await getattr(side.relaying, name)(side.connection, *arguments)
    return {claim.ulid for claim in claims}


async def test_rows_are_claimed_once_until_they_are_late_or_released(side: Side) -> None:
    one, two = [await side.start("signals", {"n": 1}) for _ in range(2)]
    assert await side.relaying.peek(side.connection) == (True, False)
    assert await claimed(side, "claim_pokes", 10) == set()
    assert await claimed(side, "claim_starts", 1) == {one}
    assert await claimed(side, "claim_starts", 10) == {two}
    assert await claimed(side, "claim_starts", 10) == set()
    assert await side.relaying.peek(side.connection) == (False, False)
    assert await claimed(side, "claim_again", 10) == set()
    await side.age(6)
    assert await claimed(side, "claim_again", 10) == {one, two}
    await side.age(4)
    assert await claimed(side, "claim_again", 10) == set()
    await side.relaying.release(side.connection, [two])
    assert await claimed(side, "claim_starts", 10) == {two}
    await (await decided(side, one, "signals")).to(side)
    await side.age(1_000)
    assert await claimed(side, "claim_again", 10) == {two}


async def test_commands_are_claimed_apart_from_starts_and_cancels_are_known(side: Side) -> None:
    ulid = await begun(side, "signals")
    other = await side.start("chain", {"n": 1})
    await side.tell(ulid, "cancel", {})
    assert await claimed(side, "claim_pokes", 10) == {ulid}
    cancelled = await side.relaying.cancelled(side.connection, [ulid, other])
    assert list(cancelled) == [ulid]


@pytest.mark.parametrize(
    ("key", "after"), [("times", 20), ("chain", 20), ("queued", 20), ("signals", None)]
)
async def test_what_is_due_for_ten_seconds_is_swept(
    side: Side, key: str, after: int | None
) -> None:
    ulid = await begun(side, key)
    assert await claimed(side, "overdue", 10) == set()
    await side.age(after or 10_000)
    assert await claimed(side, "overdue", 10) == ({ulid} if after else set())
    assert await claimed(side, "overdue", 10, ulid) == set()


async def test_a_lease_that_is_over_is_swept_and_one_that_is_not_is_not(side: Side) -> None:
    ulid = await begun(side, "queued")
    (step,) = (await state_of(side, ulid)).steps.values()
    await (await decided(side, ulid, "queued", Finished(step.id, ONE, {}))).to(side)
    (step,) = (await state_of(side, ulid)).steps.values()
    await (await decided(side, ulid, "queued", Claimed(step.id, 600), writer=step_token(OTHER))).to(
        side
    )
    await side.age(300)
    assert await claimed(side, "overdue", 10) == set()
    await side.age(400)
    assert await claimed(side, "overdue", 10) == {ulid}


async def test_an_end_that_a_wait_has_not_noted_is_swept(side: Side) -> None:
    ulid = await begun(side, "family")
    (wait,) = (await state_of(side, ulid)).waits.values()
    child = wait.instances[0]
    await side.tell(child, "cancel", {})
    await (await decided(side, child, "child")).to(side)
    assert await claimed(side, "overdue", 10) == set()
    await side.age(20)
    assert await claimed(side, "overdue", 10) == {ulid}
    ended = await side.awaited.ended(side.connection, [child], "*")
    await (await decided(side, ulid, "family", Tick(), ended=ended)).to(side)
    await side.age(20)
    assert await claimed(side, "overdue", 10) == set()
