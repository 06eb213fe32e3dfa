from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.errors import InvalidDocument
from adapter.graph.compiled import compile_graph
from adapter.graph.findings import CODES
from adapter.graph.validation import validate

EXAMPLES = [
    json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[2] / "examples" / "nodes").glob("*.json"))
]

ODD: list[Any] = [
    *[None, True, 0, -1, 1.5, 2**60, 1e300, float("nan"), "", "x", "\0", "\ud800", "é" * 70],
    *[
        "${",
        "${ 1 + }",
        "${ trigger.x }",
        "${ item }",
        "$${",
        "begin",
        "fetch",
        "make",
        "bureaus",
        "all",
        "nope",
        "success",
        "failure",
    ],
    *["PT1S", "PT0S", "P1Y", "2030-01-01T00:00:00Z", "trigger.x", "steps.x.y", "1 / 0 == 1"],
    *[[], {}, [[]], [{}], {"": 1}, {"a": {"b": []}}, {"all": []}, {"not": {"not": 1}}, b"x", ()],
    *[
        "trigger",
        "action",
        "decision",
        "set",
        "delay",
        "wait",
        "end",
        "parallel",
        "for_each",
        "repeat",
        "start_workflow",
        "wait_for",
        "approval",
        "event",
        "manual",
    ],
    {"field": "trigger.x", "op": "matches", "value": "("},
]
KEYS = ["id", "type", "config", "from", "to", "on", "when", "retry", "timeout", "x", "schema", ""]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        found += places(item, (*path, key))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """An example with some parts replaced, removed, repeated or exchanged."""
    value: Any = copy.deepcopy(draw(st.sampled_from(EXAMPLES)))
    for _ in range(draw(st.integers(1, 5))):
        path = draw(st.sampled_from(places(value)))
        if not path:
            continue
        parent = value
        for key in path[:-1]:
            parent = parent[key]
        match draw(st.sampled_from(["replace", "remove", "add", "repeat", "graft"])):
            case "replace":
                parent[path[-1]] = copy.deepcopy(draw(st.sampled_from(ODD)))
            case "remove":
                del parent[path[-1]]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(KEYS))] = copy.deepcopy(draw(st.sampled_from(ODD)))
            case "repeat" if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[path[-1]]))
            case "graft":
                other = draw(st.sampled_from(EXAMPLES))
                parent[path[-1]] = copy.deepcopy(other)
            case _:
                pass
    return value


@settings(max_examples=600, deadline=None)
@given(mutated())
def test_validation_never_raises_and_what_it_lets_pass_compiles(value: Any) -> None:
    found = validate(value)

    for finding in found:
        assert finding.code in CODES
        assert finding.pointer == "" or finding.pointer.startswith("/")
    if not any(finding.severity == "error" for finding in found):
        assert compile_graph(value).nodes


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_compiling_gives_a_graph_or_refuses_with_findings(value: Any) -> None:
    try:
        outcome = [compile_graph(value).trigger]
    except InvalidDocument as error:
        outcome = error.details["findings"]
    assert outcome


JSON_TEXT = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["schema", "nodes", "edges", "settings"]), JSON_TEXT))
def test_any_object_gets_findings(value: Any) -> None:
    assert validate(value)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='{}[]",:\\ anulltrue0123\ud800é', max_size=60) | st.binary(max_size=40))
def test_any_text_gets_findings(text: Any) -> None:
    assert validate(text)
