"""Documents with one mistake each in nodes that own, start or await others, or take signals."""

from __future__ import annotations

from typing import Any

from tests.graph.documents import action, document, node
from tests.graph.wrong_documents import one


def owning(node_type: str, config: dict[str, Any], edges: Any, configs: dict[str, Any]) -> Any:
    """An owner ``it`` behind the trigger, and actions a, b and c, joined by the edges alone."""
    others = [action(name) for name in ("a", "b", "c")]
    for other in others:
        other["config"] = configs.get(other["id"], other["config"])
    return document([node(node_type, config), *others], list(edges))


def parallel(config: dict[str, Any], *edges: Any, **configs: Any) -> Any:
    return owning("parallel", {"branches": {"a": "a", "b": "b"}, **config}, edges, configs)


def for_each(config: dict[str, Any], *edges: Any, **configs: Any) -> Any:
    return owning("for_each", {"items": [1, 2], "body": "a", **config}, edges, configs)


def repeat(config: dict[str, Any] | None = None, *edges: Any, **configs: Any) -> Any:
    return owning("repeat", {"body": "a", **(config or {})}, edges, configs)


def starting(config: dict[str, Any]) -> Any:
    return one("start_workflow", {"workflow": "other", **config})


def nested(depth: int) -> Any:
    """So many bodies inside one another, with an action in the innermost."""
    owners = [node("for_each", {"items": [1], "body": f"n{i + 1}"}, f"n{i}") for i in range(depth)]
    return document([*owners, action(f"n{depth}")])


A_TO_C = {"from": "a", "to": "c"}

WRONG_STRUCTURES: list[tuple[str, str, Any]] = [
    ("nothing_to_wait_for", "/nodes/1/config", one("wait", {})),
    ("several_to_wait_for", "/nodes/1/config/signal", one("wait", {"event": "e", "signal": "s"})),
    (
        "several_to_wait_for",
        "/nodes/1/config/signals",
        one("wait", {"event": "e", "signals": ["s"]}),
    ),
    ("repeat_condition", "/nodes/1/config", repeat()),
    ("repeat_condition", "/nodes/1/config", repeat({"while": "true", "until": "true"})),
    ("not_a_list", "/nodes/1/config/items", for_each({"items": "rows"})),
    ("not_a_list", "/nodes/1/config/items", for_each({"items": "${ 1 + 1 }"})),
    ("not_a_list", "/nodes/1/config/items", for_each({"items": "x ${ trigger.rows }"})),
    ("not_a_list", "/nodes/1/config/items", one("start_workflow", {"workflow": "w", "items": "x"})),
    ("not_a_list", "/nodes/1/config/instances", one("wait_for", {"instances": "${ true }"})),
    ("quorum_too_large", "/nodes/1/config/quorum", parallel({"join": "quorum", "quorum": 3})),
    ("quorum_too_large", "/nodes/1/config/quorum", for_each({"mode": "quorum", "quorum": 3})),
    (
        "quorum_too_large",
        "/nodes/1/config/quorum",
        one("wait_for", {"instances": ["a"], "mode": "quorum", "quorum": 2}),
    ),
    ("missing_field", "/nodes/1/config", parallel({"join": "quorum"})),
    ("missing_field", "/nodes/1/config", for_each({"mode": "quorum"})),
    ("field_not_allowed", "/nodes/1/config/quorum", parallel({"join": "any", "quorum": 1})),
    ("field_not_allowed", "/nodes/1/config/quorum", for_each({"quorum": 1})),
    ("field_not_allowed", "/nodes/1/config/mode", starting({"mode": "any"})),
    ("field_not_allowed", "/nodes/1/config/quorum", starting({"quorum": 1})),
    ("field_not_allowed", "/nodes/1/config/on_failure", starting({"on_failure": "finish"})),
    ("field_not_allowed", "/nodes/1/config/timeout", starting({"wait": False, "timeout": "PT1S"})),
    (
        "field_not_allowed",
        "/nodes/1/config/mode",
        starting({"wait": False, "items": [1], "mode": "all"}),
    ),
    (
        "field_not_allowed",
        "/nodes/1/config/outcome",
        one("wait_for", {"instances": "a", "outcome": "late"}),
    ),
    (
        "field_not_allowed",
        "/nodes/1/config/correlation",
        one("wait", {"event": "e", "correlation": "c"}),
    ),
    ("field_not_allowed", "/nodes/1/config/mode", one("wait", {"signal": "s", "mode": "any"})),
    ("invalid_field", "/nodes/1/config/signals", one("wait", {"signals": ["s", "s"]})),
    ("invalid_field", "/nodes/1/config/signals", one("wait", {"signals": []})),
    ("invalid_field", "/nodes/1/config/signal", one("wait", {"signal": "a\tb"})),
    ("invalid_field", "/nodes/1/config/branches", one("parallel", {"branches": {}})),
    (
        "invalid_field",
        "/nodes/1/config/branches",
        one("parallel", {"branches": {f"b{i}": "a" for i in range(65)}}),
    ),
    ("invalid_field", "/nodes/1/config/branches/a:b", one("parallel", {"branches": {"a:b": "a"}})),
    ("invalid_field", "/nodes/1/config/concurrency", for_each({"concurrency": 0})),
    ("invalid_field", "/nodes/1/config/concurrency", for_each({"concurrency": 1001})),
    ("invalid_field", "/nodes/1/config/max_iterations", repeat({"max_iterations": 100_001})),
    (
        "name_not_available",
        "/nodes/3/config/input/x",
        for_each({}, {"from": "it", "to": "b"}, b={"action": "x", "input": {"x": "${ item }"}}),
    ),
    ("name_not_available", "/nodes/1/config/items", for_each({"items": "${ item.rows }"})),
    (
        "name_not_available",
        "/edges/1/when",
        for_each({}, {"from": "it", "to": "b", "when": "item"}),
    ),
    ("name_not_available", "/nodes/1/config/input/x", starting({"input": {"x": "${ item }"}})),
    (
        "step_never_before",
        "/nodes/3/config/input/x",
        parallel({}, b={"action": "x", "input": {"x": "${ steps.a.output }"}}),
    ),
    (
        "step_not_visible",
        "/nodes/3/config/input/x",
        for_each({}, {"from": "it", "to": "b"}, b={"action": "x", "input": {"x": "${ steps.a }"}}),
    ),
    ("unknown_node", "/nodes/1/config/body", for_each({"body": "nowhere"})),
    (
        "unknown_node",
        "/nodes/1/config/branches/b",
        parallel({"branches": {"a": "a", "b": "nowhere"}}),
    ),
    (
        "region_shared",
        "/nodes/1/config/branches/b",
        parallel({"branches": {"a": "a", "b": "a"}}),
    ),
    ("edge_leaves_region", "/edges/2/to", parallel({}, {"from": "it", "to": "c"}, A_TO_C)),
    ("edge_leaves_region", "/edges/2/to", parallel({}, A_TO_C, {"from": "b", "to": "c"})),
    ("edge_into_region", "/edges/1/to", parallel({}, {"from": "it", "to": "a"})),
    ("edge_into_region", "/edges/1/to", parallel({}, {"from": "a", "to": "b"})),
    ("edge_into_region", "/edges/1/to", parallel({}, {"from": "c", "to": "a"})),
    ("owner_in_region", "/edges/1/to", parallel({}, {"from": "b", "to": "it"})),
    ("owner_in_region", "/nodes/1/config/body", for_each({"body": "it"})),
    ("trigger_in_region", "/nodes/1/config/body", for_each({"body": "begin"})),
    ("nested_too_deep", "/nodes/33/config/body", nested(33)),
]
