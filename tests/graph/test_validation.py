from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from adapter.graph.arguments import Parameters
from adapter.graph.findings import CODES
from adapter.graph.validation import validate
from adapter.settings import Limits
from tests.graph.documents import action, document, findings, node, told
from tests.graph.wrong_documents import GOOD, WRONG, A, B, between, with_values
from tests.graph.wrong_structures import WRONG_STRUCTURES, for_each, repeat

ALL = [*WRONG, *WRONG_STRUCTURES]
WITH_HANDLERS = {"unknown_action", "unknown_argument", "suspect_argument", "missing_argument"}
PAGE = (Path(__file__).parents[2] / "docs" / "graph-format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("code", "pointer", "value"), ALL, ids=[f"{w[0]}{w[1]}" for w in ALL])
def test_what_is_wrong_is_found_at_its_place(code: str, pointer: str, value: Any) -> None:
    found = validate(value)

    assert (code, pointer) in told(found)
    for finding in found:
        assert finding.severity == CODES[finding.code].severity
        assert finding.message
        assert finding.remedy
        assert not finding.message.endswith(".")


@pytest.mark.parametrize(
    "items",
    [
        "${ ['a', 'b'].filter(x, x in trigger.wanted) }",
        "${ trigger.rows.map(row, row.id) }",
        "${ [1, 2] + trigger.more }",
        "${ trigger.rows }",
        "${ has(trigger.rows) ? trigger.rows : [] }",
    ],
)
def test_any_expression_that_can_give_a_list_will_do_for_items(items: str) -> None:
    assert "not_a_list" not in {finding.code for finding in validate(for_each({"items": items}))}


def test_every_code_has_a_test_and_a_row_in_the_table_of_codes() -> None:
    tested = {code for code, _, _ in ALL} | {code for code in CODES if code in WITH_HANDLERS}
    rows = re.findall(r"^\| `(\w+)` \| (error|warning) \|", PAGE, re.MULTILINE)

    assert tested == set(CODES)
    assert rows == [(code, row.severity) for code, row in CODES.items()]


def test_a_good_document_has_no_findings_in_any_form() -> None:
    assert validate(GOOD) == []
    assert validate(json.dumps(GOOD)) == []
    assert validate(json.dumps(GOOD, indent=2).encode()) == []


def test_all_that_is_wrong_is_found_at_once() -> None:
    wrong = document(
        [
            action("a", retry={"max_attempts": 0, "x": 1}, timeout="1s"),
            node("set", {"values": {"x": "${ 1 + } ${ nope }", "y": ["${ steps.z.output }"]}}, "b"),
            node("decision", {}, "c"),
            node("nothing", {}, "d"),
        ],
        [
            {"from": "a", "to": "e", "when": {"any": ["1 +", {"field": "x", "op": "exists"}]}},
            {"from": "b", "to": "c"},
            {"from": "b", "to": "d", "colour": 1},
        ],
        key="",
        extra=1,
    )

    assert findings(wrong) == {
        ("invalid_field", "/key"),
        ("unknown_field", "/extra"),
        ("invalid_field", "/nodes/1/retry/max_attempts"),
        ("unknown_field", "/nodes/1/retry/x"),
        ("invalid_duration", "/nodes/1/timeout"),
        ("invalid_expression", "/nodes/2/config/values/x"),
        ("unknown_name", "/nodes/2/config/values/x"),
        ("unknown_step", "/nodes/2/config/values/y/0"),
        ("decision_without_edges", "/nodes/3"),
        ("unknown_node_type", "/nodes/4/type"),
        ("unknown_node", "/edges/1/to"),
        ("invalid_expression", "/edges/1/when/any/0"),
        ("unknown_name", "/edges/1/when/any/1/field"),
        ("unknown_field", "/edges/3/colour"),
    }


def test_findings_come_in_the_order_of_the_document() -> None:
    wrong = document(
        [action("a", x=1), node("decision", {}, "b")],
        [{"from": "a", "to": "nowhere"}],
        name="",
    )

    assert [finding.pointer for finding in validate(wrong)] == [
        "/name",
        "/nodes/1/x",
        "/nodes/2",
        "/edges/1/to",
    ]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({**GOOD, "nmae": "x"}, "did you mean 'name'"),
        (document([node("decison", {})]), "did you mean 'decision'"),
        (document([action("charge")], [{"from": "charge", "to": "chrage"}]), "'charge'"),
        (between({}, {**A, "on": "sucess"}, B), "did you mean 'success'"),
        (document([node("action", {"action": "host.atc"})]), "did you mean 'host.act'"),
    ],
)
def test_a_slip_of_the_pen_gets_a_hint(value: Any, hint: str) -> None:
    messages = [finding.message for finding in validate(value, known_actions=["host.act"])]

    assert any(hint in message for message in messages)


def test_actions_are_checked_where_the_registered_ones_are_known() -> None:
    assert findings(GOOD, known_actions=None) == set()
    assert findings(GOOD, known_actions={"host.act"}) == set()
    assert findings(GOOD, known_actions=[]) == {("unknown_action", "/nodes/1/config/action")}


@pytest.mark.parametrize(
    ("given", "open_", "expected"),
    [
        ({"name": 1}, False, set()),
        ({"name": "${ trigger.name }", "loud": True}, False, set()),
        ({}, False, {("missing_argument", "")}),
        ({"nmae": 1}, False, {("unknown_argument", "/nmae"), ("missing_argument", "")}),
        ({"name": 1, "x": 2}, False, {("unknown_argument", "/x")}),
        ({"name": 1, "x": 2}, True, set()),
        ({"name": 1, "lound": 2}, True, {("suspect_argument", "/lound")}),
        ({"x": 2}, True, {("missing_argument", "")}),
    ],
)
def test_arguments_are_checked_where_the_handlers_are_known(
    given: dict[str, Any], open_: bool, expected: set[tuple[str, str]]
) -> None:
    takes = {"host.act": Parameters({"name": True, "loud": False}, open=open_)}
    value = document([node("action", {"action": "host.act", "input": given})])
    place = "/nodes/1/config/input"

    found = findings(value, known_actions=takes)

    assert found == {(code, place + below) for code, below in expected}
    assert findings(value, known_actions={"host.act"}) == set()


def test_a_syntax_error_is_told_in_words_with_its_place() -> None:
    for text, told_ in (
        ('{"a": 1,\n "b" 2}', "it is not JSON: line 2, column 6: a colon is expected"),
        ('{"a": 1', "it is not JSON: line 1, column 8: it ends too early"),
        ("", "it is not JSON: line 1, column 1: it is empty"),
        ("{} x", "it is not JSON: line 1, column 4: something follows the end of the value"),
    ):
        (finding,) = validate(text)
        assert finding.message == told_


def test_limits_are_those_of_the_settings() -> None:
    for name in ("max_steps", "max_items", "max_depth", "max_started"):
        own = document([action()], settings={"limits": {name: 50}})
        assert findings(own, limits=Limits.model_validate({name: 50})) == set()
        assert findings(own, limits=Limits.model_validate({name: 49})) == {
            ("limit_too_high", f"/settings/limits/{name}")
        }
    assert findings(with_values(a="x" * 2000), limits=Limits(max_graph_bytes=1024)) == {
        ("document_too_large", "")
    }


@pytest.mark.parametrize(
    "value",
    [
        # a handler names outcomes of its own
        document([action("a"), action("b")], [{"from": "a", "to": "b", "on": "approved"}]),
        # a decision on true and false leaves nothing open
        between({"on": "${ trigger.x > 1 }"}, {**A, "on": "true"}, {**B, "on": "false"}),
        # an outcome that is no identifier
        between({"on": "${ trigger.x }"}, {**A, "on": "EU West, 2"}, B),
        # a step read in a loop, and one read on its own edge
        document(
            [node("set", {"values": {"n": "${ has(steps.it) ? 1 : 0 }"}})],
            [{"from": "it", "to": "it", "when": "steps.it.outcome == 'success'"}],
            settings={"limits": {"max_steps": 9}},
        ),
        # a wait with both times, and one for a time alone
        document([node("wait", {"event": "e", "timeout": "PT1S", "until": "${ trigger.at }"})]),
        document([node("wait", {"timeout": "PT1S"})]),
        # a loop in which something waits
        document(
            [node("delay", {"for": "PT1S"})], [{"from": "it", "to": "it", "when": "trigger.x"}]
        ),
        # null where a field may be left out
        document([action(retry=None, timeout=None, escalations=None, compensate=None)]),
    ],
)
def test_what_is_right_is_left_alone(value: Any) -> None:
    assert validate(value) == []


@pytest.mark.parametrize(
    ("node_type", "config", "possible"),
    [
        ("parallel", {"branches": {"a": "c"}}, {"success", "failure"}),
        ("for_each", {"items": [], "body": "c"}, {"success", "failure"}),
        ("repeat", {"until": "true", "body": "c"}, {"success", "failure", "exhausted"}),
        ("start_workflow", {"workflow": "w"}, {"success", "failure"}),
        ("start_workflow", {"workflow": "w", "timeout": "P1D"}, {"success", "failure", "late"}),
        ("wait_for", {"instances": "x"}, {"success", "failure"}),
        (
            "wait_for",
            {"instances": "x", "until": "${ trigger.at }"},
            {"success", "failure", "late"},
        ),
        ("wait", {"signal": "s"}, {"success"}),
        ("wait", {"signals": ["s"], "timeout": "P1D"}, {"success", "late"}),
        ("wait", {"signal": "s", "correlation": "${ trigger.x }"}, {"success", "failure"}),
    ],
)
def test_edges_name_outcomes_that_the_node_can_have(
    node_type: str, config: dict[str, Any], possible: set[str]
) -> None:
    outcomes = ["success", "failure", "exhausted", "late", "timed_out"]
    if "late" in possible:
        config = {**config, "outcome": "late"}
    value = document(
        [node(node_type, config), action("a"), action("c")],
        [{"from": "it", "to": "a", "on": outcome} for outcome in outcomes],
    )

    refused = {pointer for code, pointer in findings(value) if code == "impossible_outcome"}
    assert refused == {
        f"/edges/{index}/on"
        for index, outcome in enumerate(outcomes, start=1)
        if outcome not in possible
    }


def test_the_iterations_of_a_repeat_are_no_loop_but_edges_inside_its_body_are() -> None:
    again = {"from": "c", "to": "a", "when": "trigger.x"}
    body = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]

    assert findings(repeat({"while": "trigger.x"}, *body)) == set()
    assert findings(repeat({"while": "trigger.x"}, *body, again)) == {
        ("unbounded_loop", "/nodes/2")
    }


def test_a_loop_of_decisions_cannot_end_even_inside_a_larger_loop() -> None:
    value = document(
        [node("decision", {}, "a"), node("decision", {}, "b"), action("c")],
        [
            {"from": "a", "to": "b"},
            {"from": "b", "to": "a", "when": "trigger.x"},
            {"from": "b", "to": "c"},
            {"from": "c", "to": "a"},
        ],
    )

    assert findings(value) == {("endless_loop", "/nodes/1"), ("unbounded_loop", "/nodes/1")}


def test_an_unknown_end_of_an_edge_is_not_told_again_as_what_follows_from_it() -> None:
    value = document(
        [action("a"), node("decision", {}, "d"), action("b")],
        [{"from": "a", "to": "x"}, {"from": "d", "to": "y"}],
    )

    assert findings(value) == {("unknown_node", "/edges/1/to"), ("unknown_node", "/edges/2/to")}


def test_a_chain_of_two_thousand_nodes_is_checked() -> None:
    nodes = [action(f"n{i}") for i in range(1_999)]
    edges = [{"from": f"n{i}", "to": f"n{i + 1}"} for i in range(1_998)]
    for i, item in enumerate(nodes[1:]):
        item["config"] = {"action": "host.act", "input": {"x": f"${{ steps.n{i}.output }}"}}

    assert validate(document(nodes, edges)) == []
