"""Documents with one mistake each, and where validation finds it."""

from __future__ import annotations

import json
from typing import Any

from tests.graph.documents import action, document, node

GOOD = document([action()])


def with_values(**values: Any) -> dict[str, Any]:
    return one("set", {"values": values})


def one(node_type: str, config: dict[str, Any]) -> dict[str, Any]:
    return document([node(node_type, config)])


def acting(*args: Any, **fields: Any) -> dict[str, Any]:
    return document([action(*args, **fields)])


def limited(limits: dict[str, Any]) -> dict[str, Any]:
    return document([action()], settings={"limits": limits})


def with_edge(edge: Any) -> dict[str, Any]:
    return document([action()], [edge])


def triggered(config: dict[str, Any]) -> dict[str, Any]:
    return {**GOOD, "nodes": [node("trigger", config), action()], "edges": []}


def branches(config: dict[str, Any], on: str, *, node_type: str) -> Any:
    return between(config, {**A, "on": on}, B, node_type=node_type)


def when(condition: Any) -> Any:
    return between({}, {**A, "when": condition}, B)


def between(config: dict[str, Any], *edges: dict[str, Any], node_type: str = "decision") -> Any:
    """A node ``it`` behind the trigger, followed by actions ``a`` and ``b``."""
    return document([node(node_type, config), action("a"), action("b")], list(edges))


A = {"from": "it", "to": "a"}
B = {"from": "it", "to": "b"}

WRONG: list[tuple[str, str, Any]] = [
    # the text
    ("invalid_json", "", "{"),
    ("invalid_json", "", ""),
    ("invalid_json", "", b"\xff"),
    ("invalid_json", "", "\ufeff{}"),
    ("invalid_json", "", "{'a': 1}"),
    ("not_an_object", "", "[]"),
    ("not_an_object", "", "null"),
    ("not_an_object", "", None),
    ("not_an_object", "", 5),
    ("too_deep", "", "[" * 100_000),
    ("too_deep", "", '{"a":' * 100_000),
    ("duplicate_key", "/name", '{"name": 1, "name": 2}'),
    ("duplicate_key", "/nodes/0/config/a", '{"nodes": [{"config": {"a": 1, "a": 1}}]}'),
    ("invalid_value", "/nodes/1/config/values/a", with_values(a=float("nan"))),
    ("invalid_value", "/nodes/1/config/values/a", json.dumps(with_values(a=float("inf")))),
    ("invalid_value", "/nodes/1/config/values/a", with_values(a=2**53)),
    ("invalid_value", "/nodes/1/config/values/a", with_values(a="\0")),
    ("invalid_value", "/nodes/1/config/values/a", with_values(a="\ud800")),
    ("invalid_value", "/nodes/1/config/values/a", with_values(a=object())),
    ("invalid_value", "/key", '{"key": 1' + "0" * 5000 + "}"),
    ("document_too_large", "", with_values(a="x" * 600_000)),
    ("document_too_large", "", " " * 3_000_000),
    ("document_too_large", "/nodes", document([action(f"a{i}") for i in range(2_000)])),
    # the shape
    ("missing_field", "", {key: GOOD[key] for key in GOOD if key != "key"}),
    ("missing_field", "", {key: GOOD[key] for key in GOOD if key != "nodes"}),
    ("missing_field", "/nodes/1", document([{"type": "action", "config": {"action": "a"}}])),
    ("missing_field", "/nodes/1/config", one("action", {})),
    ("missing_field", "/nodes/0/config", {**GOOD, "nodes": [{"id": "a", "type": "trigger"}]}),
    ("missing_field", "/edges/1", with_edge({"from": "act"})),
    ("unknown_field", "/colour", {**GOOD, "colour": "red"}),
    ("unknown_field", "/settings/limits/max_step", limited({"max_step": 1})),
    ("unknown_field", "/nodes/1/position", acting(position=[1, 2])),
    ("unknown_field", "/nodes/1/config/inputs", one("action", {"action": "a", "inputs": {}})),
    ("unknown_field", "/nodes/1/retry/attempts", acting(retry={"max_attempts": 1, "attempts": 2})),
    ("unknown_field", "/edges/1/label", with_edge({"from": "act", "to": "act", "label": "x"})),
    ("invalid_field", "/schema", {**GOOD, "schema": "something"}),
    ("invalid_field", "/key", {**GOOD, "key": "with space"}),
    ("invalid_field", "/name", {**GOOD, "name": ""}),
    ("invalid_field", "/nodes", {**GOOD, "nodes": {}}),
    ("invalid_field", "/edges", {**GOOD, "edges": None}),
    ("invalid_field", "/nodes/1", document([5])),
    ("invalid_field", "/edges/1", with_edge(5)),
    ("invalid_field", "/nodes/1/id", acting("1st")),
    ("invalid_field", "/nodes/1/id", acting("a" * 65)),
    ("invalid_field", "/nodes/1/retry/max_attempts", acting(retry={"max_attempts": 101})),
    ("invalid_field", "/nodes/1/retry/jitter", acting(retry={"max_attempts": 1, "jitter": 2})),
    ("invalid_field", "/nodes/1/config/input", one("action", {"action": "a", "input": []})),
    ("invalid_field", "/nodes/1/config/values/1", one("set", {"values": {"1": 1}})),
    ("invalid_field", "/nodes/1/config/status", one("end", {"status": "done"})),
    ("invalid_field", "/nodes/0/config/type", triggered({"type": "x"})),
    ("invalid_field", "/edges/1/on", with_edge({"from": "act", "to": "act", "on": "x" * 33})),
    (
        "retry_max_below_initial",
        "/nodes/1/retry/initial",
        acting(retry={"max_attempts": 2, "initial": "PT10M"}),
    ),
    (
        "retry_max_below_initial",
        "/nodes/1/retry/initial",
        acting(retry={"max_attempts": 2, "initial": "PT2S", "max": "PT1S", "backoff": "constant"}),
    ),
    ("invalid_duration", "/nodes/1/timeout", acting(timeout="20s")),
    ("invalid_duration", "/nodes/1/timeout", acting(timeout="PT0S")),
    (
        "invalid_duration",
        "/nodes/1/retry/initial",
        acting(retry={"max_attempts": 1, "initial": "P1M"}),
    ),
    ("invalid_duration", "/nodes/1/config/for", one("delay", {"for": "1h"})),
    ("invalid_time", "/nodes/1/config/until", one("delay", {"until": "tomorrow"})),
    (
        "field_not_allowed",
        "/nodes/1/config/match",
        one("wait", {"timeout": "PT1S", "match": {"a": 1}}),
    ),
    (
        "field_not_allowed",
        "/nodes/1/config/outcome",
        one("wait", {"timeout": "PT1S", "outcome": "x"}),
    ),
    ("field_not_allowed", "/nodes/1/config/code", one("end", {"code": "x"})),
    ("field_not_allowed", "/nodes/0/config/event", triggered({"type": "manual", "event": "e"})),
    ("not_supported", "/schema", {**GOOD, "schema": "roundly.workflows.graph/v2"}),
    ("not_supported", "/nodes/1/type", one("approval", {})),
    ("not_supported", "/nodes/0/config/type", triggered({"type": "schedule"})),
    ("not_supported", "/nodes/1/escalations", acting(escalations=[{"after": "PT1H"}])),
    ("not_supported", "/nodes/1/compensate", acting(compensate={"action": "undo"})),
    # nodes
    ("unknown_node_type", "/nodes/1/type", one("actoin", {})),
    ("no_trigger", "/nodes", {**GOOD, "nodes": [action()], "edges": []}),
    ("second_trigger", "/nodes/1", one("trigger", {"type": "manual"})),
    ("duplicate_node_id", "/nodes/2/id", document([action(), action()])),
    (
        "retry_not_allowed",
        "/nodes/1/retry",
        document([{**node("delay", {"for": "PT1S"}), "retry": {"max_attempts": 2}}]),
    ),
    (
        "timeout_not_allowed",
        "/nodes/1/timeout",
        document([{**node("wait", {"event": "e"}), "timeout": "PT1S"}]),
    ),
    ("delay_time", "/nodes/1/config", one("delay", {})),
    (
        "delay_time",
        "/nodes/1/config",
        one("delay", {"for": "PT1S", "until": "2030-01-01T00:00:00Z"}),
    ),
    ("invalid_field", "/nodes/1/config/queue", acting(config={"action": "a", "queue": "Slow"})),
    (
        "invalid_duration",
        "/nodes/1/config/heartbeat",
        acting(config={"action": "a", "heartbeat": "PT0.5S"}),
    ),
    ("outcome_not_text", "/nodes/1/config/on", between({"on": "${ [1] }"}, A)),
    ("limit_too_high", "/settings/limits/max_steps", limited({"max_steps": 99_999})),
    ("limit_too_high", "/settings/limits/max_items", limited({"max_items": 10_001})),
    ("limit_too_high", "/settings/limits/max_depth", limited({"max_depth": 11})),
    ("limit_too_high", "/settings/limits/max_started", limited({"max_started": 1_001})),
    # expressions
    ("invalid_expression", "/nodes/1/config/values/a", with_values(a="${ 1 + }")),
    (
        "invalid_expression",
        "/nodes/1/config/values/a/0/b",
        with_values(a=[{"b": "x ${ 'a' + 1 }"}]),
    ),
    ("invalid_expression", "/nodes/1/config/values/a", with_values(a="${ never closed")),
    ("invalid_expression", "/edges/1/when/all/1", when({"all": ["true", "1 +"]})),
    ("unknown_name", "/nodes/1/config/values/a", with_values(a="${ amount }")),
    ("unknown_name", "/nodes/1/config/values/a", with_values(a="${ upper(trigger.x) }")),
    ("unknown_name", "/edges/1/when/field", when({"field": "amount", "op": "exists"})),
    ("unknown_name", "/edges/1/when", when("event.x")),
    (
        "unknown_name",
        "/nodes/1/config/match/id",
        one("wait", {"event": "e", "match": {"id": "${ event.x }"}}),
    ),
    (
        "expression_too_costly",
        "/nodes/1/config/values/a",
        with_values(a="${ '" + "a" * 5000 + "' }"),
    ),
    (
        "expression_too_costly",
        "/nodes/1/config/values/a",
        with_values(a="${ [1].map(a, [1].map(b, [1].map(c, [1].map(d, d)))) }"),
    ),
    (
        "expression_not_supported",
        "/nodes/1/config/values/a",
        with_values(a="${ 'a'.matches(trigger.p) }"),
    ),
    ("invalid_condition", "/edges/1/when", when({"fields": 1})),
    ("invalid_condition", "/edges/1/when", when([])),
    ("invalid_condition", "/edges/1/when", when("${ trigger.x }")),
    (
        "invalid_condition",
        "/edges/1/when/any/0/op",
        when({"any": [{"field": "trigger", "op": "is"}]}),
    ),
    (
        "invalid_condition",
        "/nodes/1/config/condition",
        one("wait", {"event": "e", "condition": "1"}),
    ),
    ("unknown_step", "/nodes/1/config/values/a", with_values(a="${ steps.nowhere.output }")),
    ("unknown_step", "/edges/1/when", when({"field": "steps.no.output", "op": "exists"})),
    ("name_not_available", "/nodes/1/config/values/a", with_values(a="${ item.x }")),
    (
        "name_not_available",
        "/nodes/0/config/condition",
        {
            **GOOD,
            "nodes": [
                node("trigger", {"type": "event", "event": "e", "condition": "state.x"}),
                action(),
            ],
            "edges": [{"from": "it", "to": "act"}],
        },
    ),
    (
        "step_never_before",
        "/nodes/1/config/values/a",
        document(
            [node("set", {"values": {"a": "${ steps.later.output }"}}), action("later")],
            [{"from": "it", "to": "later"}],
        ),
    ),
    ("step_never_before", "/nodes/1/config/values/a", with_values(a="${ steps.it.output }")),
    ("integer_division", "/nodes/1/config/values/a", with_values(a="${ trigger.x / 2 }")),
    ("integer_division", "/edges/1/when", when("trigger.x / 2 > 1.5")),
    # edges
    ("unknown_node", "/edges/1/to", with_edge({"from": "act", "to": "nowhere"})),
    ("unknown_node", "/edges/1/from", with_edge({"from": "nowhere", "to": "act"})),
    ("edge_into_trigger", "/edges/1/to", with_edge({"from": "act", "to": "begin"})),
    ("edge_from_end", "/edges/1/from", between({}, A, node_type="end")),
    ("on_and_when", "/edges/1/when", between({}, {**A, "on": "success", "when": "true"}, B)),
    (
        "duplicate_on",
        "/edges/2/on",
        between({"on": "${ trigger.x }"}, {**A, "on": "x"}, {**B, "on": "x"}),
    ),
    ("second_plain_edge", "/edges/2", between({}, A, B)),
    ("impossible_outcome", "/edges/1/on", between({}, {**A, "on": "approved"}, B)),
    (
        "impossible_outcome",
        "/edges/1/on",
        between({"on": "${ trigger.x > 1 }"}, {**A, "on": "yes"}, B),
    ),
    ("impossible_outcome", "/edges/1/on", branches({"for": "PT1S"}, "failure", node_type="delay")),
    ("impossible_outcome", "/edges/1/on", branches({"event": "e"}, "timed_out", node_type="wait")),
    (
        "impossible_outcome",
        "/edges/1/on",
        branches({"timeout": "PT1S"}, "timed_out", node_type="wait"),
    ),
    ("condition_after_plain", "/edges/2/when", between({}, A, {**B, "when": "true"})),
    # the whole
    ("decision_without_edges", "/nodes/1", one("decision", {})),
    ("no_default_edge", "/nodes/1", between({}, {**A, "when": "true"}, {**B, "when": "false"})),
    (
        "no_default_edge",
        "/nodes/1",
        between({"on": "${ trigger.x }"}, {**A, "on": "x"}, {**B, "on": "y"}),
    ),
    ("unreachable_node", "/nodes/2", document([action("a"), action("b")])),
    ("endless_loop", "/nodes/1", between({}, {"from": "it", "to": "it"})),
    ("unbounded_loop", "/nodes/1", with_edge({"from": "act", "to": "act"})),
]
