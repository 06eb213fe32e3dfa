from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from adapter.interpreter.events import Arrived, StoredEvent
from tests.interpreter.told import Told, kinds_of


def asking(*edges: Any, **config: Any) -> Told:
    node = {"id": "ask", "type": "wait", "config": {"event": "paid", **config}}
    return Told(node, edges=[("trigger", "ask"), *edges], trigger={"n": 2})


def test_an_event_at_the_very_time_of_the_time_out_is_in_time() -> None:
    told = asking(timeout="PT1M")
    told.begin()
    assert told.later(seconds=59.9) == []
    told.world.now += timedelta(seconds=0.1)
    event = told.store(n=1)
    told.world.now += timedelta(hours=1)
    fired, ended = told.later()
    assert (fired.kind, fired.data["event"], fired.row) == (
        "wait_fired",
        event.id,
        {"output": {"n": 1}},
    )
    assert ended.kind == "completed"


def test_an_event_after_the_time_out_is_too_late_and_left_for_others() -> None:
    told = asking(("ask", "ask"), timeout="PT1M")
    told.begin()
    told.world.now += timedelta(seconds=61)
    event = told.store(n=1)
    entries = told.later()
    assert kinds_of(entries) == ["wait_timed_out", "wait_opened", "wait_fired", "wait_opened"]
    assert entries[2].data["event"] == event.id
    assert told.wait.due_at == told.world.now + timedelta(minutes=1)


def test_an_event_whose_time_is_not_known_is_in_time() -> None:
    told = asking(timeout="PT1M")
    told.begin()
    told.world.now += timedelta(hours=1)
    told.world.stored.append(StoredEvent(told.world.draw(), {"n": 1}))
    assert kinds_of(told.later()) == ["wait_fired", "completed"]


def test_the_lowest_id_is_taken_first_and_none_twice() -> None:
    told = asking(("ask", "ask"))
    told.begin()
    events = [told.store(n=n) for n in range(3)]
    entries = told.later()
    taken = [entry.data["event"] for entry in entries if entry.kind == "wait_fired"]
    assert taken == [event.id for event in events]
    assert told.state.consumed == frozenset(taken)
    assert told.later() == []
    assert told.state.status == "waiting"


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("event.n > 1", 2),
        ("event.n > trigger.n", 3),
        ({"field": "event.n", "op": "eq", "value": 3}, 3),
        ("event.n.deeper == 1", None),
        ("1 / (event.n - 2) == 1", 3),
        ("event.n", None),
    ],
)
def test_events_that_do_not_meet_the_condition_are_passed_over(
    condition: Any, taken: int | None
) -> None:
    told = asking(condition=condition)
    told.begin()
    events = {n: told.store(n=n) for n in (1, 2, 3)}
    entries = told.later()
    if taken is None:
        assert entries == []
        assert told.wait.event == "paid"
    else:
        assert entries[0].data["event"] == events[taken].id


def test_word_of_an_event_alone_fires_nothing() -> None:
    told = asking()
    told.begin()
    (applied,) = told.tell(Arrived(told.world.draw(), "event", None, 77))
    assert (applied.kind, applied.data["event"]) == ("inbox_applied", 77)
    assert applied.data["result"] == {"status": "done"}
    assert told.later() == []
    assert told.state.status == "waiting"


def test_a_command_that_is_not_known_is_refused_and_the_instance_stays_as_it_is() -> None:
    told = asking()
    told.begin()
    before = told.state
    (applied,) = told.tell(Arrived(told.world.draw(), "dance", {"with": "me"}))
    assert applied.data["result"] == {"status": "refused", "reason": "not_supported"}
    assert (told.state.status, told.state.waits) == (before.status, before.waits)


def test_nothing_that_comes_before_the_start_is_lost_or_acted_on() -> None:
    told = asking()
    assert told.later() == []
    assert kinds_of(told.tell(Arrived(told.world.draw(), "event", None, 7))) == ["inbox_applied"]
    assert told.state.status == "pending"
    assert kinds_of(told.begin()) == ["started", "step_passed", "wait_opened"]


def test_a_due_time_without_an_event_fires_once() -> None:
    node = {"id": "pause", "type": "delay", "config": {"for": "PT1M"}}
    told = Told(node, edges=[("trigger", "pause"), ("pause", "pause")])
    told.begin()
    due = told.wait.due_at
    entries = told.later(minutes=10)
    assert kinds_of(entries) == ["wait_fired", "wait_opened"]
    assert due is not None
    assert told.wait.due_at == due + timedelta(minutes=10)
    assert told.later() == []
