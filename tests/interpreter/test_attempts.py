from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from adapter.graph.document import RetryPolicy
from adapter.interpreter.env import Bounds, Policy
from adapter.interpreter.events import Failure, Finished, TakeOver, Tick
from tests.interpreter.told import Told, kinds_of

ACT = {"id": "act", "type": "action", "config": {"action": "known", "input": {"n": "${ trigger }"}}}


def acting(**parts: Any) -> Told:
    told = Told({**ACT, **parts}, edges=[("trigger", "act")], trigger=7)
    told.begin()
    return told


@pytest.mark.parametrize(
    ("jitter", "random", "share"),
    [(0, 0.99, 1), (0.5, 0, 1), (0.5, 0.5, 0.75), (1, 0.5, 0.5), (1, 0.999_999, 0)],
)
def test_jitter_shortens_the_wait_by_its_share_of_chance(
    jitter: float, random: float, share: float
) -> None:
    told = acting(retry={"max_attempts": 2, "initial": "PT100S", "jitter": jitter})
    told.world.random = random
    told.fail()
    assert told.step.due_at is not None
    waited = (told.step.due_at - told.world.now).total_seconds()
    assert waited == pytest.approx(100 * share, abs=0.001)


def test_an_attempt_begins_when_its_time_has_come_and_not_before() -> None:
    told = acting(retry={"max_attempts": 2, "initial": "PT10S"})
    first = told.step
    assert kinds_of(told.fail()) == ["step_failed", "step_scheduled"]
    assert (told.step.status, told.step.attempt, told.step.source) == ("retrying", 2, first.id)
    assert told.later(seconds=9.999) == []
    (started,) = told.later(seconds=0.001)
    assert (started.kind, started.row["call"]) == ("step_started", {"n": 7})
    assert (told.step.status, told.step.due_at) == ("running", None)


def test_an_attempt_whose_time_has_come_waits_for_a_turn_that_may_begin_something() -> None:
    told = acting(retry={"max_attempts": 2, "initial": "PT10S"})
    told.fail()
    told.world.begin = False
    assert told.later(seconds=10) == []
    assert told.step.status == "retrying"
    told.world.begin = True
    assert kinds_of(told.later()) == ["step_started"]


def test_losses_do_not_count_as_failures_nor_failures_as_losses() -> None:
    told = acting(retry={"max_attempts": 3, "initial": "PT0S"})
    told.world.bounds = Bounds(max_lost=2)

    def lose() -> None:
        told.world.turn += 1
        told.tell(TakeOver(frozenset({told.world.worker})))

    for happens in (told.fail, lose, told.fail):
        told.later()
        happens()
        assert not told.state.ended
    assert (told.step.failures, told.step.losses, told.step.attempt) == (2, 1, 4)
    told.later()
    assert kinds_of(told.fail()) == ["step_failed", "failed"]
    assert told.state.status == "failed"


def test_a_step_that_kills_its_workers_ends_as_lost() -> None:
    told = acting()
    for _ in range(2):
        told.world.turn += 1
        entries = told.tell(TakeOver(frozenset({told.world.worker})))
        assert kinds_of(entries) == ["step_lost", "step_scheduled"]
        assert entries[0].data == {"counted": True, "final": False}
        told.tell(Tick())
    told.world.turn += 1
    lost, failed = told.tell(TakeOver(frozenset({told.world.worker})))
    assert (lost.kind, lost.data["final"], lost.data["counted"]) == ("step_lost", True, True)
    assert (failed.kind, failed.data["code"]) == ("failed", "worker_lost")
    assert "3 workers died in step 'act'" in failed.row["message"]


def test_a_loss_of_which_its_worker_did_not_die_does_not_count() -> None:
    told = acting()
    for _ in range(10):
        told.world.turn += 1
        entries = told.tell(TakeOver())
        assert kinds_of(entries) == ["step_lost", "step_scheduled"]
        assert entries[0].data["counted"] is False
        told.tell(Tick())
    assert (told.step.losses, told.step.attempt) == (0, 11)


def test_a_turn_does_not_take_over_from_itself() -> None:
    told = acting()
    assert told.tell(TakeOver(frozenset({told.world.worker}))) == []


@pytest.mark.parametrize("change", [{"token": "another turn"}, {"step": 999}])
def test_a_result_of_somebody_else_changes_nothing(change: dict[str, Any]) -> None:
    told = acting()
    finished = Finished(told.step.id, told.step.token or "", {"n": 1})
    for event in (replace(finished, **change), replace(finished, **change, failure=_BOOM)):
        before = told.state
        assert told.tell(event) == []
        assert told.state == before


_BOOM = Failure("boom", "boom")


def test_a_result_of_an_attempt_that_is_over_changes_nothing() -> None:
    told = acting(retry={"max_attempts": 3, "initial": "PT0S"})
    late = Finished(told.step.id, told.step.token or "", {"n": 1})
    told.fail()
    assert told.tell(late) == []
    told.tell(Tick())
    assert told.tell(late) == []
    told.finish({"n": 2})
    assert told.tell(late) == []
    assert told.state.status == "completed"


def test_the_policy_of_the_action_serves_where_the_node_has_none() -> None:
    policy = Policy(RetryPolicy(max_attempts=2, initial="PT30S"))
    cases: list[tuple[dict[str, Any], bool]] = [({}, True), ({"retry": {"max_attempts": 1}}, False)]
    for parts, retried in cases:
        told = Told({**ACT, **parts}, edges=[("trigger", "act")])
        told.world.policies = {"known": policy}
        told.begin()
        told.fail()
        assert told.state.ended is not retried
        if retried:
            assert told.step.due_at == told.world.now + timedelta(seconds=30)


def test_an_action_that_may_not_begin_is_scheduled_with_nothing_worked_out() -> None:
    told = Told(ACT, edges=[("trigger", "act")], trigger=7)
    told.world.begin = False
    entries = told.begin()
    assert kinds_of(entries) == ["started", "step_passed", "step_scheduled"]
    assert entries[2].row == {}
    assert told.tell(Tick()) == []
    told.world.begin = True
    told.world.trigger = 8
    (started,) = told.tell(Tick())
    assert (started.kind, started.row["call"]) == ("step_started", {"n": 8})
    assert (told.step.visit, told.step.attempt, told.state.steps_count) == (1, 1, 2)
