from __future__ import annotations

from typing import Any

import pytest

from adapter.interpreter import entries as kinds
from adapter.interpreter.events import Arrived, Failure, Finished, Tick
from tests.interpreter.told import Told, kinds_of


def act(node: str, **config: Any) -> dict[str, Any]:
    return {"id": node, "type": "action", "config": {"action": "known", **config}}


def parallel(branches: dict[str, str], **config: Any) -> dict[str, Any]:
    return {"id": "fan", "type": "parallel", "config": {"branches": branches, **config}}


def each(items: Any, **config: Any) -> dict[str, Any]:
    return {"id": "each", "type": "for_each", "config": {"items": items, "body": "one", **config}}


def running(told: Told, node: str | None = None, line: str | None = None) -> Any:
    (step,) = [
        step
        for step in told.state.steps.values()
        if step.status == "running"
        and (node is None or step.node == node)
        and (line is None or step.line == line)
    ]
    return step


def end(told: Told, step: Any, output: Any = None) -> list[Any]:
    return told.tell(Finished(step.id, step.token, output))


def fail(told: Told, step: Any, code: str = "boom") -> list[Any]:
    return told.tell(Finished(step.id, step.token, failure=Failure(code, "it broke", False)))


def command(told: Told, kind: str, **payload: Any) -> list[Any]:
    return told.tell(Arrived(told.world.draw(), kind, payload))


def result(entries: list[Any]) -> dict[str, Any]:
    (entry,) = [e for e in entries if e.kind == kinds.INBOX_APPLIED]
    return dict(entry.data["result"])


def output(told: Told, node: str) -> Any:
    return told.world.outputs[told.state.results[node].step]


def fan(reads: str = "${ steps.fan.output.succeeded }", **config: Any) -> Told:
    told = Told(
        parallel({"left": "a", "right": "b"}, **config),
        act("a"),
        act("b"),
        act("after", input={"a": reads}),
        edges=[("trigger", "fan"), ("fan", "after")],
    )
    told.begin()
    return told


def test_all_branches_run_at_once_and_the_node_goes_on_when_the_last_has_ended() -> None:
    told = fan("${ steps.a.output.n }")
    assert {(s.node, s.line, s.status) for s in told.state.steps.values()} == {
        ("fan", "", "waiting"),
        ("a", "fan.1:left", "running"),
        ("b", "fan.1:right", "running"),
    }
    end(told, running(told, "a"), {"n": 1})
    assert told.state.current == "fan"
    entries = end(told, running(told, "b"), {"n": 2})

    assert kinds_of(entries) == [
        kinds.STEP_SUCCEEDED,
        kinds.LINE_ENDED,
        kinds.SCOPE_CLOSED,
        kinds.STEP_STARTED,
    ]
    assert output(told, "fan") == {
        "branches": {
            "left": {"outcome": "success", "output": {"n": 1}},
            "right": {"outcome": "success", "output": {"n": 2}},
        },
        "succeeded": 2,
        "failed": 0,
        "cancelled": 0,
    }
    assert entries[-1].row["call"] == {"a": 1}, "what branches came to is seen after the join"


def test_the_first_branch_is_enough_for_any_and_the_others_are_cancelled() -> None:
    told = fan(join="any")
    entries = end(told, running(told, "b"), {"n": 2})
    (closed,) = [e for e in entries if e.kind == kinds.SCOPE_CLOSED]
    assert len(closed.data["steps"]) == 1
    assert output(told, "fan")["branches"]["left"] == {"outcome": "cancelled", "output": None}
    assert [s.node for s in told.state.steps.values()] == ["after"]


def test_any_fails_only_when_every_branch_has() -> None:
    told = fan(join="any")
    fail(told, running(told, "a"))
    assert not told.state.ended
    entries = fail(told, running(told, "b"), "second")
    assert told.state.status == "failed"
    assert entries[-1].data["code"] == "second"


def test_a_failed_branch_stops_the_others_and_fails_the_instance() -> None:
    told = fan()
    entries = fail(told, running(told, "a"))
    assert kinds_of(entries) == [kinds.STEP_FAILED, kinds.FAILED]
    assert entries[-1].node == "a"
    assert told.state.status == "failed"


def test_a_failure_edge_of_the_parallel_takes_the_failure_of_a_branch() -> None:
    told = Told(
        parallel({"left": "a", "right": "b"}),
        act("a"),
        act("b"),
        act("mend", input={"failed": "${ steps.fan.output.failed }"}),
        edges=[("trigger", "fan"), {"from": "fan", "to": "mend", "on": "failure"}],
    )
    told.begin()
    entries = fail(told, running(told, "a"))
    (closed,) = [e for e in entries if e.kind == kinds.SCOPE_CLOSED]
    assert (closed.data["outcome"], closed.data["code"]) == ("failure", "boom")
    assert entries[-1].row["call"] == {"failed": 1}


def test_finish_lets_the_other_branches_end_before_it_fails() -> None:
    told = fan(on_failure="finish")
    fail(told, running(told, "a"))
    assert not told.state.ended
    end(told, running(told, "b"))
    assert told.state.status == "failed"


def test_a_quorum_out_of_reach_fails_at_once() -> None:
    told = fan(join="quorum", quorum=2)
    fail(told, running(told, "b"))
    assert told.state.status == "failed"


def test_an_end_in_a_branch_ends_the_whole_instance() -> None:
    told = Told(
        parallel({"left": "stop", "right": "b"}),
        {"id": "stop", "type": "end", "config": {"status": "completed"}},
        act("b"),
        edges=[("trigger", "fan")],
    )
    told.begin()
    assert told.state.status == "completed"


def test_items_run_so_many_at_a_time_each_with_its_own_item_and_steps() -> None:
    told = Told(
        each([10, 20, 30], concurrency=2),
        act("one", input={"v": "${ item }"}),
        act("two", input={"v": "${ item }", "one": "${ steps.one.output.n }"}),
        edges=[("trigger", "each"), ("one", "two")],
    )
    told.begin()
    assert [s.line for s in told.state.steps.values() if s.line] == ["each.1:0", "each.1:1"]
    entries = end(told, running(told, "one", "each.1:1"), {"n": "b"})
    assert entries[-1].row["call"] == {"v": 20, "one": "b"}
    entries = end(told, running(told, "one", "each.1:0"), {"n": "a"})
    assert entries[-1].row["call"] == {"v": 10, "one": "a"}
    entries = end(told, running(told, "two", "each.1:1"), {"r": 1})
    assert entries[-1].data["line"] == "each.1:2"
    end(told, running(told, "one", "each.1:2"), {"n": "c"})
    end(told, running(told, "two", "each.1:2"), {"r": 2})
    end(told, running(told, "two", "each.1:0"), {"r": 0})
    assert told.state.status == "completed"
    assert output(told, "each")["results"] == [{"r": 0}, {"r": 1}, {"r": 2}]
    assert "one" not in told.state.results, "what an item did is nobody else's business"


def test_an_empty_list_succeeds_at_once() -> None:
    told = Told(each([]), act("one"), edges=[("trigger", "each")])
    told.begin()
    assert told.state.status == "completed"
    assert output(told, "each")["results"] == []


def test_failures_are_told_by_index_and_outputs_too_large_together_are_left_out() -> None:
    told = Told(
        each([1, 2, 3], on_failure="finish"),
        act("one"),
        act("mend"),
        edges=[("trigger", "each"), {"from": "each", "to": "mend", "on": "failure"}],
    )
    told.begin()
    fail(told, running(told, "one", "each.1:1"), "bad")
    big = "x" * 200_000
    end(told, running(told, "one", "each.1:0"), big)
    end(told, running(told, "one", "each.1:2"), big)
    found = output(told, "each")
    assert found["failures"] == [{"index": 1, "code": "bad", "message": "it broke"}]
    assert (found["succeeded"], found["failed"], found["cut"]) == (2, 1, True)
    assert found["results"] is None


@pytest.mark.parametrize("items", ["${ 7 }", "${ 'text' }", "${ trigger.nothing }"])
def test_items_that_are_no_list_fail_the_step(items: str) -> None:
    told = Told(each(items), act("one"), edges=[("trigger", "each")], trigger={})
    told.begin()
    assert told.state.status == "failed"


def test_a_retry_runs_only_the_items_that_failed_or_were_cut_off() -> None:
    told = Told(
        each([1, 2, 3, 4], concurrency=3),
        act("one"),
        act("end"),
        edges=[("trigger", "each"), ("each", "end")],
    )
    told.begin()
    end(told, running(told, "one", "each.1:0"), {"n": 0})
    fail(told, running(told, "one", "each.1:1"))
    assert told.state.ended

    command(told, "retry")
    told.tell(Tick())
    again = {(s.line, s.attempt, s.status) for s in told.state.steps.values()}
    assert again == {
        ("", 2, "waiting"),
        ("each.1:1", 2, "running"),
        ("each.1:2", 2, "running"),
        ("each.1:3", 2, "running"),
    }
    for index in (1, 2, 3):
        end(told, running(told, "one", f"each.1:{index}"), {"n": index})
    assert output(told, "each")["results"] == [{"n": n} for n in range(4)]
    end(told, running(told, "end"))
    assert told.state.status == "completed"


def test_a_retry_of_what_a_retry_cannot_mend_is_refused() -> None:
    told = Told({"id": "where", "type": "decision", "config": {}}, edges=[("trigger", "where")])
    told.begin()
    assert told.state.status == "failed"
    assert result(command(told, "retry")) == {"status": "refused", "reason": "nothing_to_retry"}


def test_a_retry_cannot_mend_a_repeat_that_is_exhausted_beside_what_was_cut_off() -> None:
    once = {"body": "n", "until": "false", "max_iterations": 1}
    told = Told(
        parallel({"left": "again", "right": "b"}),
        {"id": "again", "type": "repeat", "config": once},
        {"id": "n", "type": "set", "config": {"values": {"n": 1}}},
        act("b"),
        edges=[("trigger", "fan")],
    )
    told.begin()
    assert told.state.status == "failed"
    assert result(command(told, "retry")) == {"status": "refused", "reason": "nothing_to_retry"}


def test_while_paused_results_are_kept_and_nothing_begins() -> None:
    told = Told(act("a"), act("b"), edges=[("trigger", "a"), ("a", "b")])
    told.begin()
    assert kinds_of(command(told, "pause", reason="lunch")) == [kinds.PAUSED]
    assert told.state.status == "paused"
    entries = end(told, running(told, "a"), {"n": 1})
    assert kinds_of(entries) == [kinds.STEP_SUCCEEDED, kinds.STEP_SCHEDULED]
    assert told.state.status == "paused"
    assert told.tell(Tick()) == []
    assert result(command(told, "pause"))["reason"] == "already_paused"
    command(told, "resume")
    told.tell(Tick())
    assert running(told).node == "b"


def test_what_comes_during_a_pause_is_taken_after_it() -> None:
    told = Told(
        {"id": "w", "type": "wait", "config": {"signal": "go", "timeout": "PT1H"}},
        edges=[("trigger", "w")],
    )
    told.begin()
    command(told, "pause")
    told.tell(told.world.signal("go", {"n": 1}))
    assert told.later(days=1) == []
    command(told, "resume")
    told.tell(Tick())
    assert told.state.status == "completed"
    assert output(told, "w") == {"n": 1}


def test_signals_are_kept_in_order_and_each_satisfies_one_wait() -> None:
    told = Told(
        act("a"),
        {"id": "w1", "type": "wait", "config": {"signal": "go"}},
        {"id": "w2", "type": "wait", "config": {"signal": "go"}},
        {"id": "w3", "type": "wait", "config": {"signal": "go"}},
        edges=[("trigger", "a"), ("a", "w1"), ("w1", "w2"), ("w2", "w3")],
    )
    told.begin()
    told.tell(told.world.signal("go", 1))
    told.tell(told.world.signal("go", 2))
    end(told, running(told, "a"))
    assert (output(told, "w1"), output(told, "w2")) == (1, 2)
    assert told.wait.node == "w3"
    told.tell(told.world.signal("go", 3))
    assert told.state.status == "completed"


def test_a_signal_must_carry_the_correlation_and_the_fields() -> None:
    config = {"signal": "paid", "match": {"n": 1}, "correlation": "${ 'order-' + trigger.o }"}
    told = Told(
        {"id": "w", "type": "wait", "config": config}, edges=[("trigger", "w")], trigger={"o": "7"}
    )
    told.begin()
    for payload, correlation in [({"n": 1}, None), ({"n": 1}, "order-8"), ({"n": True}, "order-7")]:
        told.tell(told.world.signal("paid", payload, correlation))
        assert not told.state.ended
    told.tell(told.world.signal("paid", {"n": 1, "more": 2}, "order-7"))
    assert told.state.status == "completed"
    assert len(told.state.signals) == 3, "what was turned down stays for others"


def test_a_wait_for_several_signals_takes_each_as_it_comes() -> None:
    told = Told(
        {"id": "w", "type": "wait", "config": {"signals": ["a", "b"]}}, edges=[("trigger", "w")]
    )
    told.begin()
    told.tell(told.world.signal("b", 2))
    assert told.state.signals == ()
    told.tell(told.world.signal("a", 1))
    assert output(told, "w") == {"b": 2, "a": 1}


def test_a_repeat_ends_by_its_condition_or_is_exhausted() -> None:
    told = Told(
        {
            "id": "again",
            "type": "repeat",
            "config": {"body": "one", "until": "steps.one.output.n > 1", "max_iterations": 3},
        },
        act("one"),
        edges=[("trigger", "again")],
    )
    told.begin()
    end(told, running(told, "one"), {"n": 1})
    assert running(told, "one").line == "again.1:2"
    end(told, running(told, "one"), {"n": 2})
    assert output(told, "again") == {"iterations": 2, "output": {"n": 2}}

    endless = Told(
        {
            "id": "again",
            "type": "repeat",
            "config": {"body": "one", "while": "true", "max_iterations": 2},
        },
        act("one"),
        edges=[("trigger", "again")],
    )
    endless.begin()
    end(endless, running(endless, "one"))
    entries = end(endless, running(endless, "one"))
    assert entries[-1].data["code"] == "max_transitions_exceeded"


def test_a_cancelled_instance_takes_no_more_commands() -> None:
    told = fan()
    command(told, "cancel", reason="over")
    assert told.state.status == "cancelled"
    for kind in ("pause", "resume", "cancel", "signal"):
        assert result(command(told, kind, name="x"))["reason"] == "ended"
    assert result(command(told, "retry"))["reason"] == "not_failed"


def test_a_pending_instance_can_be_cancelled_before_it_has_begun() -> None:
    told = Told(act("a"), edges=[("trigger", "a")])
    command(told, "cancel")
    assert told.state.status == "cancelled"
    assert result(told.begin()) == {"status": "refused", "reason": "ended"}
