from __future__ import annotations

import copy
import threading
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import InvalidDocument
from adapter.graph.canonical import checksum
from adapter.graph.compiled import CACHED_GRAPHS, Choice, cached_graph, compile_graph
from adapter.graph.document import RetryPolicy
from adapter.graph.expressions import EvaluationFailed
from tests.graph.documents import action, document, node

FULL = document(
    [
        action("check", retry={"max_attempts": 3}, timeout="PT20S", name="Check it"),
        node("wait", {"event": "paid", "condition": "event.ok && trigger.x > 1"}, "pay"),
        node("end", {"output": "${ steps.pay.output }"}, "done"),
        node("end", {"status": "failed"}, "refused"),
    ],
    [
        {"from": "check", "to": "pay"},
        {"from": "check", "to": "done", "when": {"field": "state.a", "op": "eq", "value": 1}},
        {"from": "check", "to": "refused", "when": "steps.check.output.n > 1"},
        {"from": "check", "to": "refused", "on": "refused"},
        {"from": "pay", "to": "done"},
    ],
)


def test_a_graph_has_its_nodes_in_order_and_its_trigger() -> None:
    graph = compile_graph(FULL)

    assert graph.key == "test"
    assert graph.checksum == checksum(FULL)
    assert list(graph.nodes) == ["begin", "check", "pay", "done", "refused"]
    assert graph.trigger is graph.nodes["begin"]
    assert graph.settings.actor_mode == "starter"
    assert graph.settings.limits.max_steps is None


def test_a_node_has_everything_that_is_needed_to_run_it() -> None:
    graph = compile_graph(FULL)
    check, pay = graph.nodes["check"], graph.nodes["pay"]

    assert (check.id, check.type, check.name, check.index) == ("check", "action", "Check it", 1)
    assert check.timeout == timedelta(seconds=20)
    assert check.retry.max_attempts == 3
    assert pay.retry.max_attempts == 1
    assert pay.timeout is None
    assert check.template.render({}) == {"input": {}}
    assert [edge.index for edge in check.edges] == [1, 2, 3, 4]
    assert pay.condition is not None
    assert pay.condition.test({"event": {"ok": True}, "trigger": {"x": 2}})


def test_the_scope_of_a_node_covers_its_config_and_its_edges_but_not_the_event() -> None:
    graph = compile_graph(FULL)

    assert graph.nodes["check"].refs.names == {"state", "steps"}
    assert graph.nodes["check"].refs.steps == frozenset({"check"})
    assert graph.nodes["pay"].refs.names == {"trigger"}
    assert graph.nodes["done"].refs.steps == frozenset({"pay"})


@pytest.mark.parametrize(
    ("outcome", "state", "expected"),
    [
        ("refused", {"a": 1}, Choice(4, "refused", "outcome")),
        ("success", {"a": 1}, Choice(2, "done", "condition")),
        ("success", {"a": 2}, Choice(3, "refused", "condition")),
        ("other", {"a": 2}, Choice(3, "refused", "condition")),
        ("failure", {"a": 1}, Choice(None, None, "none")),
    ],
)
def test_outcomes_come_first_then_conditions_in_order(
    outcome: str, state: dict[str, Any], expected: Choice
) -> None:
    names = {"state": state, "steps": {"check": {"output": {"n": 2}, "outcome": outcome}}}

    assert compile_graph(FULL).nodes["check"].choose(outcome, names) == expected


def test_the_plain_edge_is_taken_when_nothing_else_is() -> None:
    names = {"state": {}, "steps": {"check": {"output": {"n": 0}}}}

    choice = compile_graph(FULL).nodes["check"].choose("success", names)

    assert choice == Choice(1, "pay", "plain")


def test_a_node_without_edges_ends_its_line() -> None:
    choice = compile_graph(FULL).nodes["done"].choose("success", {})

    assert choice == Choice(None, None, "none")


def test_a_condition_that_fails_passes_its_failure_on() -> None:
    with pytest.raises(EvaluationFailed):
        compile_graph(FULL).nodes["check"].choose("success", {"state": {}, "steps": {}})


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        ({"backoff": "constant", "initial": "PT2S"}, [2, 2, 2, 2]),
        ({"backoff": "linear", "initial": "PT2S"}, [2, 4, 6, 8]),
        ({}, [1, 2, 4, 8]),
        ({"factor": 3, "max": "PT10S"}, [1, 3, 9, 10]),
        ({"factor": 1.5, "initial": "PT4S"}, [4, 6, 9, 13.5]),
        ({"initial": "PT0S"}, [0, 0, 0, 0]),
        ({"initial": "PT10S", "max": "PT1S", "backoff": "constant"}, [1, 1, 1, 1]),
    ],
)
def test_the_wait_between_attempts_grows_as_it_was_asked_to(
    policy: dict[str, Any], delays: list[float]
) -> None:
    retry = RetryPolicy.model_validate({"max_attempts": 5, **policy})

    assert [retry.delay(n).total_seconds() for n in (1, 2, 3, 4)] == delays


@given(
    st.integers(1, 100),
    st.sampled_from(["constant", "linear", "exponential"]),
    st.floats(1, 10),
    st.sampled_from(["PT0.000001S", "PT1S", "P36500D"]),
    st.sampled_from(["PT0S", "PT5M", "P36500D"]),
)
def test_no_wait_is_longer_than_its_maximum(
    attempt: int, backoff: str, factor: float, initial: str, most: str
) -> None:
    retry = RetryPolicy.model_validate(
        {
            "max_attempts": 100,
            "backoff": backoff,
            "factor": factor,
            "initial": initial,
            "max": most,
        }
    )
    longest = RetryPolicy.model_validate(
        {"max_attempts": 1, "backoff": "constant", "initial": most, "max": most}
    ).delay(1)

    assert timedelta() <= retry.delay(attempt) <= longest


def test_the_same_document_gives_the_same_graph() -> None:
    graph = compile_graph(FULL)

    assert compile_graph(copy.deepcopy(FULL)) is graph
    assert compile_graph(dict(reversed(FULL.items()))) is graph
    assert compile_graph({}, checksum=graph.checksum) is graph
    assert cached_graph(graph.checksum) is graph


def test_only_so_many_graphs_are_kept_and_the_oldest_goes_first() -> None:
    first = compile_graph(document([action()], key="first"))
    second = compile_graph(document([action()], key="second"))
    for number in range(CACHED_GRAPHS - 2):
        compile_graph(document([action()], key=f"more-{number}"))
    assert cached_graph(first.checksum) is first

    compile_graph(document([action()], key="last"))

    assert cached_graph(first.checksum) is first
    assert cached_graph(second.checksum) is None


def test_several_threads_may_compile_the_same_document() -> None:
    graphs: list[Any] = []
    work = document([action()], key="threads")
    threads = [
        threading.Thread(target=lambda: graphs.append(compile_graph(copy.deepcopy(work))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {graph.checksum for graph in graphs} == {checksum(work)}


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {**FULL, "nodes": []},
        {**FULL, "nodes": FULL["nodes"][1:]},
        {**FULL, "edges": [{"from": "begin", "to": "nowhere"}]},
        {**FULL, "edges": [{"from": "nowhere", "to": "done"}]},
        document([action(), action()]),
        document([node("parallel", {})]),
        document([node("parallel", {"branches": {"a": "nowhere"}})]),
        document([node("parallel", {"branches": {"a": "act", "b": "act"}}), action()]),
        document([node("approval", {})]),
        document([node("set", {"values": {"a": "${ 1 + }"}})]),
        document([{**action(), "config": {"action": "a", "input": {"x": float("nan")}}}]),
        document([action()], [{"from": "act", "to": "act", "when": {"all": []}}]),
    ],
)
def test_what_cannot_run_is_refused_with_findings(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidDocument) as caught:
        compile_graph(broken)

    assert caught.value.details["findings"]


def test_what_a_stricter_validation_would_refuse_still_runs() -> None:
    odd = document(
        [action(), node("decision", {})],
        [{"from": "act", "to": "it", "on": "x"}, {"from": "act", "to": "it", "on": "x"}],
    )

    assert compile_graph(odd).nodes["act"].choose("x", {}) == Choice(1, "it", "outcome")


STRUCTURED = document(
    [
        node("parallel", {"branches": {"x": "each", "y": "again"}}, "par"),
        node("for_each", {"items": "${ trigger.rows }", "body": "start"}, "each"),
        node(
            "start_workflow",
            {
                "workflow": "child",
                "items": "${ item.parts }",
                "input": {"part": "${ item.id }", "of": "${ state.order }"},
                "timeout": "${ trigger.patience }",
            },
            "start",
        ),
        node("repeat", {"body": "try", "while": "steps.try.output > state.limit"}, "again"),
        action("try"),
        node(
            "wait",
            {"signals": ["a", "b"], "correlation": "${ trigger.id }", "condition": "event.ok"},
            "last",
        ),
    ],
    [{"from": "par", "to": "last"}],
)


def test_a_node_that_owns_others_has_its_bodies_and_they_have_their_owner() -> None:
    graph = compile_graph(STRUCTURED)

    assert graph.nodes["par"].bodies == {"x": "each", "y": "again"}
    assert graph.nodes["each"].bodies == {"body": "start"}
    assert graph.nodes["again"].bodies == {"body": "try"}
    assert graph.nodes["try"].bodies == {}
    assert graph.owner_of == {"each": "par", "again": "par", "start": "each", "try": "again"}


def test_what_is_rendered_for_each_item_is_apart_from_what_is_rendered_once() -> None:
    start = compile_graph(STRUCTURED).nodes["start"]
    names = {"item": {"parts": [1]}, "state": {"order": 7}, "trigger": {"patience": "PT1H"}}

    assert start.template.render(names) == {"items": [1], "timeout": "PT1H"}
    assert start.item_template is not None
    assert start.item_template.render({**names, "item": {"id": 2}}) == {
        "input": {"part": 2, "of": 7}
    }
    assert start.refs.names == {"item", "state", "trigger"}


def test_without_items_everything_is_rendered_once() -> None:
    config = {"workflow": "child", "input": {"a": "${ trigger.a }"}}
    start = compile_graph(document([node("start_workflow", config)])).nodes["it"]

    assert start.item_template is None
    assert start.template.render({"trigger": {"a": 1}}) == {"input": {"a": 1}}


def test_the_item_of_an_input_is_no_name_to_provide() -> None:
    config = {"workflow": "child", "items": "${ trigger.rows }", "input": {"a": "${ item }"}}
    start = compile_graph(document([node("start_workflow", config)])).nodes["it"]

    assert start.refs.names == {"trigger"}


def test_the_condition_of_a_repeat_reads_the_steps_of_its_body_and_no_event() -> None:
    again = compile_graph(STRUCTURED).nodes["again"]

    assert again.condition is not None
    assert again.condition.test({"steps": {"try": {"output": 3}}, "state": {"limit": 2}})
    assert again.refs.names == {"steps", "state"}
    assert again.refs.steps == frozenset({"try"})
    with pytest.raises(InvalidDocument):
        compile_graph(document([node("repeat", {"body": "act", "until": "event.x"}), action()]))


def test_a_correlation_is_rendered_when_the_wait_begins() -> None:
    last = compile_graph(STRUCTURED).nodes["last"]

    assert last.template.render({"trigger": {"id": "k"}}) == {"correlation": "k"}
    assert last.condition is not None
    assert last.condition.test({"event": {"ok": True}})
    assert last.refs.names == {"trigger"}
