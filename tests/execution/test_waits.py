from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ulid import ULID

from adapter.records.look import BATCH
from tests.driving.turns import take_single_turn, take_turn
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from adapter.execution.deps import TurnDeps
    from tests.execution.runtime import Runtime


@pytest.fixture
def key() -> str:
    """An event key of the test's own."""
    return f"paid.{ULID()}"


END = {"id": "end", "type": "end", "config": {"output": "${ steps.ask.output }"}}
LATE = {"id": "late", "type": "end", "config": {}}


def wait(**config: Any) -> dict[str, Any]:
    return {"id": "ask", "type": "wait", "config": config}


def with_late(node: dict[str, Any], outcome: str = "timed_out") -> dict[str, Any]:
    return graph(
        node,
        END,
        LATE,
        edges=[("trigger", "ask"), ("ask", "end"), {"from": "ask", "to": "late", "on": outcome}],
    )


async def test_a_wait_tells_in_its_row_what_it_waits_for(runtime: Runtime, key: str) -> None:
    condition = {"field": "event.amount", "op": "gt", "value": 5}
    node = wait(
        event=key,
        match={"permit": "${ trigger.permit }", "kind": "fee"},
        condition=condition,
        timeout="PT1H",
        outcome="overdue",
    )
    ulid = await runtime.begun(chain(node, END), {"permit": 4711})
    result = await take_turn(runtime.process(), ulid)
    assert (result.status, result.node, result.more) == ("waiting", "ask", False)
    assert result.delay == pytest.approx(3_600, abs=5)
    (row,) = await runtime.rows("waits", ulid)
    assert (row["kind"], row["status"], row["event_key"]) == ("event", "pending", key)
    assert row["match"] == {"permit": 4711, "kind": "fee"}
    assert (row["condition"], row["outcome"], row["payload"]) == (condition, "overdue", None)
    assert (row["due_at"] - row["created_at"]).total_seconds() == pytest.approx(3_600, abs=5)
    step = await runtime.step(ulid, "ask")
    assert (step["status"], row["step_run_id"]) == ("waiting", step["id"])
    assert (await runtime.instance(ulid))["status"] == "waiting"


async def test_a_wait_for_any_event_of_a_key_has_an_empty_match_and_no_end(
    runtime: Runtime, key: str
) -> None:
    ulid = await runtime.begun(chain(wait(event=key), END))
    result = await take_turn(runtime.process(), ulid)
    assert (result.delay, result.stuck) == (None, False)
    (row,) = await runtime.rows("waits", ulid)
    assert (row["match"], row["due_at"], row["condition"]) == ({}, None, None)


async def test_the_event_fires_the_wait_and_its_payload_is_the_output(
    runtime: Runtime, key: str
) -> None:
    ulid = await runtime.begun(chain(wait(event=key), END))
    process = runtime.process()
    await take_turn(process, ulid)
    event = await runtime.emit(key, {"amount": 7})
    await runtime.deliver(ulid, event)
    result = await take_turn(process, ulid)

    assert result.status == "completed"
    (row,) = await runtime.rows("waits", ulid)
    assert (row["status"], row["payload"]) == ("fired", {"amount": 7})
    assert row["fired_at"] == row["claimed_at"] > row["created_at"]
    step = await runtime.step(ulid, "ask")
    assert (step["status"], step["outcome"], step["output"]) == (
        "succeeded",
        "success",
        {"amount": 7},
    )
    assert (await runtime.step(ulid, "end"))["output"] == {"amount": 7}
    journal = await runtime.rows("journal", ulid)
    (fired,) = [row for row in journal if row["kind"] == "wait_fired"]
    assert (fired["data"]["event"], fired["data"]["wait"]) == (event, row["id"])
    assert fired["writer"] == row["claim_token"]
    inbox = (await runtime.rows("inbox", ulid))[1]
    assert (inbox["kind"], inbox["event_id"], inbox["result"]) == (
        "event",
        event,
        {"status": "done"},
    )
    assert inbox["applied_at"] is not None


async def test_an_event_from_after_the_start_waits_for_a_wait_that_opens_later(
    runtime: Runtime, key: str
) -> None:
    ulid = await runtime.begun(chain(wait(event=key), END))
    await runtime.emit(key, {"amount": 7})
    await runtime.finish(runtime.process(), ulid)
    assert (await runtime.step(ulid, "end"))["output"] == {"amount": 7}
    assert (await runtime.rows("waits", ulid))[0]["status"] == "fired"


async def test_an_event_from_before_the_start_is_not_for_this_instance(
    runtime: Runtime, key: str
) -> None:
    version = await runtime.publish(chain(wait(event=key), END))
    await runtime.emit(key, {"amount": 7})
    ulid = await runtime.start(version)
    result = await runtime.finish(runtime.process(), ulid)
    assert result.status == "waiting"


@pytest.mark.parametrize(
    ("match", "payload", "fits"),
    [
        ({"id": "${ trigger.id }"}, {"id": 7, "more": 1}, True),
        ({"id": "${ trigger.id }"}, {"id": 8}, False),
        ({"id": "${ trigger.id }"}, {"id": "7"}, False),
        ({"id": 7}, {"id": 7.0}, True),
        ({"id": "${ trigger.id }", "kind": "fee"}, {"id": 7, "kind": "fee"}, True),
        ({"id": "${ trigger.id }", "kind": "fee"}, {"id": 7}, False),
        ({"gone": None}, {"gone": None}, True),
        ({"gone": None}, {"id": 7}, False),
        ({"at": {"a": 1}}, {"at": {"a": 1}}, True),
        ({"at": {"a": 1}}, {"at": {"a": 1, "b": 2}}, False),
        ({"at": [1]}, {"at": [1, 2]}, False),
        ({}, {"any": "thing"}, True),
    ],
)
@pytest.mark.parametrize("published_first", [True, False])
async def test_every_field_of_a_match_must_be_in_the_event_with_an_equal_value(
    runtime: Runtime, key: str, match: Any, payload: Any, fits: bool, published_first: bool
) -> None:
    blocked = chain(action("before", "nobody"), wait(event=key, match=match), END)
    version = await runtime.version_of(blocked)
    if published_first:
        await runtime.learn(blocked)
    ulid = await runtime.start(version, {"id": 7})
    await runtime.emit(key, payload)
    await runtime.learn(blocked)
    runtime.registry.action("nobody")(lambda: None)
    result = await runtime.finish(runtime.process(), ulid)
    assert result.status == ("completed" if fits else "waiting")


@pytest.mark.parametrize(
    ("condition", "amounts", "taken"),
    [
        ({"field": "event.amount", "op": "gt", "value": 5}, [1, 9, 10], 9),
        ("event.amount > trigger.n", [1, 3, 9], 3),
        ("event.amount > trigger.n && steps.before.output == 1", [1, 3], 3),
        ("event.amount.deeper > 1", [1, 2], None),
        ("event.missing > 1", [1, 2], None),
    ],
)
async def test_the_first_event_that_meets_the_condition_is_taken(
    runtime: Runtime, key: str, condition: Any, amounts: list[int], taken: int | None
) -> None:
    runtime.registry.action("one")(lambda: 1)
    document = chain(action("before", "one"), wait(event=key, condition=condition), END)
    ulid = await runtime.begun(document, {"n": 2})
    for amount in amounts:
        await runtime.emit(key, {"amount": amount})
    result = await runtime.finish(runtime.process(), ulid)
    assert result.status == ("waiting" if taken is None else "completed")
    if taken is not None:
        assert (await runtime.step(ulid, "end"))["output"] == {"amount": taken}


@pytest.mark.parametrize("opened_first", [True, False])
async def test_no_number_of_events_that_do_not_fit_hides_the_one_that_does(
    runtime: Runtime, key: str, opened_first: bool
) -> None:
    document = chain(wait(event=key, condition="event.n == trigger.n"), END)
    ulid = await runtime.begun(document, {"n": 3 * BATCH})
    process = runtime.process()
    if opened_first:
        await runtime.finish(process, ulid)
    for n in range(3 * BATCH):
        event = await runtime.emit(key, {"n": n})
    if opened_first:
        await runtime.deliver(ulid, event)
    assert (await runtime.finish(process, ulid)).status == "waiting"
    await runtime.deliver(ulid, await runtime.emit(key, {"n": 3 * BATCH}))
    assert (await runtime.finish(process, ulid)).status == "completed"
    assert (await runtime.step(ulid, "end"))["output"] == {"n": 3 * BATCH}


async def go_on(process: TurnDeps, ulid: str) -> None:
    """Takes turns of a process that keeps what it has at hand."""
    while (await take_single_turn(process, ulid)).more:
        pass


async def test_what_was_turned_down_is_neither_kept_nor_read_again(
    runtime: Runtime, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = chain(wait(event=key, condition="event.n == trigger.n"), END)
    ulid = await runtime.begun(document, {"n": 3 * BATCH})
    process = runtime.process()
    read: list[int] = []
    look = process.looker.look

    async def counted(*arguments: Any, **more: Any) -> Any:
        events = await look(*arguments, **more)
        read.extend(event.payload["n"] for event in events)
        return events

    monkeypatch.setattr(process.looker, "look", counted)
    for n in range(2 * BATCH + 7):
        await runtime.emit(key, {"n": n})
    await go_on(process, ulid)
    assert read == list(range(2 * BATCH + 7))
    for n in (1_000, 3 * BATCH):
        folded = process.cache.take(ulid)
        assert (folded.stored, folded.pages) == ({}, {})
        process.cache.put(ulid, folded)
        read.clear()
        await runtime.deliver(ulid, await runtime.emit(key, {"n": n}))
        await go_on(process, ulid)
        assert read == [n]
    assert (await runtime.step(ulid, "end"))["output"] == {"n": 3 * BATCH}


async def test_an_event_that_is_committed_late_is_found_below_those_turned_down(
    runtime: Runtime, key: str
) -> None:
    ulid = await runtime.begun(
        chain(wait(event=key, condition="event.n == trigger.n"), END), {"n": 0}
    )
    process = runtime.process()
    async with runtime.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        late = await runtime.emit(key, {"n": 0}, connection)
        await runtime.deliver(ulid, await runtime.emit(key, {"n": 1}))
        assert (await runtime.finish(process, ulid)).status == "waiting"
        await transaction.commit()
    await runtime.deliver(ulid, late)
    assert (await runtime.finish(process, ulid)).status == "completed"


@pytest.mark.parametrize("where", ["by this process", "by another one"])
async def test_an_event_that_was_turned_down_fits_when_another_branch_sets_what_it_needs(
    runtime: Runtime, key: str, where: str
) -> None:
    branches = {"ask": "ask", "other": "other"}
    other = {"id": "other", "type": "wait", "config": {"event": f"{key}.go"}}
    document = graph(
        {"id": "both", "type": "parallel", "config": {"branches": branches}},
        wait(event=key, condition="has(state.n) && event.n == state.n"),
        other,
        {"id": "say", "type": "set", "config": {"values": {"n": "${ steps.other.output.n }"}}},
        edges=[("trigger", "both"), ("other", "say")],
    )
    ulid = await runtime.begun(document)
    process = runtime.process()
    await runtime.emit(key, {"n": 7})
    await runtime.finish(process, ulid)
    await runtime.deliver(ulid, await runtime.emit(f"{key}.go", {"n": 7}))
    if where == "by another one":
        process = runtime.process()
    assert (await runtime.finish(process, ulid)).status == "completed"
    assert (await runtime.step(ulid, "ask"))["output"] == {"n": 7}


async def test_each_visit_of_a_wait_takes_the_next_event_in_order(
    runtime: Runtime, key: str
) -> None:
    sums = {"id": "sum", "type": "set", "config": {"values": {}}}
    sums["config"] = {"values": {"seen": "${ state.seen + [steps.ask.output.n] }"}}
    begin = {"id": "begin", "type": "set", "config": {"values": {"seen": []}}}
    show = {"id": "show", "type": "end", "config": {"output": "${ state.seen }"}}
    document = graph(
        begin,
        wait(event=key),
        sums,
        show,
        edges=[
            ("trigger", "begin"),
            ("begin", "ask"),
            ("ask", "sum"),
            {"from": "sum", "to": "ask", "when": "size(state.seen) < 4"},
            ("sum", "show"),
        ],
    )
    ulid = await runtime.begun(document)
    process = runtime.process()
    for n in (1, 2):
        await runtime.emit(key, {"n": n})
    await runtime.finish(process, ulid)
    for n in (3, 4, 5):
        await runtime.deliver(ulid, await runtime.emit(key, {"n": n}))
        await runtime.finish(process, ulid)
    assert (await runtime.step(ulid, "show"))["output"] == [1, 2, 3, 4]
    waits = await runtime.rows("waits", ulid)
    assert [(w["status"], w["payload"]["n"]) for w in waits] == [("fired", n) for n in (1, 2, 3, 4)]
    steps = [s for s in await runtime.rows("step_runs", ulid) if s["node_id"] == "ask"]
    assert [(s["visit"], s["attempt"]) for s in steps] == [(1, 1), (2, 1), (3, 1), (4, 1)]


async def test_a_wait_that_times_out_leaves_by_its_outcome(runtime: Runtime, key: str) -> None:
    for config, outcome in (({}, "timed_out"), ({"outcome": "overdue"}, "overdue")):
        node = wait(event=key, timeout="PT0.05S", **config)
        ulid = await runtime.begun(with_late(node, outcome))
        result = await runtime.drive(runtime.process(), ulid)
        assert (result.status, result.node) == ("completed", "late")
        (row,) = await runtime.rows("waits", ulid)
        assert (row["status"], row["payload"], row["outcome"]) == ("timed_out", None, outcome)
        assert row["fired_at"] >= row["due_at"]
        step = await runtime.step(ulid, "ask")
        assert (step["status"], step["outcome"], step["output"]) == ("succeeded", outcome, None)
        assert (await runtime.path(ulid))[1] == ("ask", outcome, "late", "outcome")
        assert "wait_timed_out" in await runtime.journal(ulid)


async def test_an_event_in_time_wins_even_when_it_is_seen_too_late(
    runtime: Runtime, key: str
) -> None:
    ulid = await runtime.begun(with_late(wait(event=key, timeout="PT1H")))
    await take_turn(runtime.process(), ulid)
    await runtime.deliver(ulid, await runtime.emit(key, {"n": 1}))
    await runtime.jump(ulid)
    result = await take_turn(runtime.process(), ulid)
    assert (result.status, result.node) == ("completed", "end")


async def test_an_event_after_its_time_does_not_win_even_when_both_are_seen_at_once(
    runtime: Runtime, key: str
) -> None:
    ulid = await runtime.begun(with_late(wait(event=key, timeout="PT1H")))
    await take_turn(runtime.process(), ulid)
    await runtime.jump(ulid)
    await runtime.deliver(ulid, await runtime.emit(key, {"n": 1}))
    result = await take_turn(runtime.process(), ulid)
    assert (result.status, result.node) == ("completed", "late")
    assert (await runtime.rows("waits", ulid))[0]["status"] == "timed_out"


@pytest.mark.parametrize("config", [{"timeout": "PT0.05S"}, {"until": "2020-01-01T00:00:00Z"}])
async def test_a_wait_for_a_time_alone_succeeds_when_it_has_come(
    runtime: Runtime, config: dict[str, Any]
) -> None:
    ulid = await runtime.begun(with_late(wait(**config)))
    result = await runtime.drive(runtime.process(), ulid)
    assert (result.status, result.node) == ("completed", "end")
    (row,) = await runtime.rows("waits", ulid)
    assert (row["kind"], row["status"], row["outcome"]) == ("timer", "fired", None)
    assert (row["event_key"], row["match"]) == (None, None)
    assert (await runtime.path(ulid))[1] == ("ask", "success", "end", "plain")


async def test_of_two_times_the_earlier_one_counts(runtime: Runtime, key: str) -> None:
    for config in (
        {"timeout": "PT0S", "until": "2999-01-01T00:00:00Z"},
        {"timeout": "P9999D", "until": "2020-01-01T00:00:00Z"},
    ):
        ulid = await runtime.ran(with_late(wait(event=key, **config)))
        assert (await runtime.instance(ulid))["current_node_id"] == "late"


async def test_a_wait_until_a_time_ends_with_its_event_before_it(
    runtime: Runtime, key: str
) -> None:
    node = wait(event=key, until="${ trigger }")
    ulid = await runtime.begun(with_late(node), "2999-01-01T00:00:00Z")
    await runtime.emit(key, {"n": 1})
    result = await runtime.finish(runtime.process(), ulid)
    assert (result.status, result.node) == ("completed", "end")


@pytest.mark.parametrize(
    "config",
    [
        {"match": {"id": "${ trigger.missing }"}},
        {"timeout": "${ trigger.none }"},
        {"timeout": "${ trigger.word }"},
        {"until": "${ trigger.word }"},
    ],
)
async def test_a_wait_that_cannot_be_worked_out_fails_the_step(
    runtime: Runtime, key: str, config: dict[str, Any]
) -> None:
    ulid = await runtime.ran(
        with_late(wait(event=key, **config), "failure"), {"none": None, "word": "soon"}
    )
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("completed", "late")
    step = await runtime.step(ulid, "ask")
    assert (step["status"], step["error_code"]) == ("failed", "expression_failed")
    assert await runtime.rows("waits", ulid) == []


async def test_an_event_for_another_owner_is_not_taken(runtime: Runtime, key: str) -> None:
    version = await runtime.publish(chain(wait(event=key), END))
    process = runtime.process()
    theirs = await runtime.start(version, owner_type="org", owner_id=2)
    ours = await runtime.start(version, owner_type="org", owner_id=1)
    await runtime.emit(key, {"n": 1}, owner_scope="org:2")
    for ulid, status in ((ours, "waiting"), (theirs, "completed")):
        assert (await runtime.finish(process, ulid)).status == status
    await runtime.emit(key, {"n": 2})
    ulid = await runtime.start(version, owner_type="org", owner_id=3)
    assert (await runtime.finish(process, ulid)).status == "waiting"
