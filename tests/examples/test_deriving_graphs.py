from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import InvalidInput
from adapter.graph.compiled import Graph, compile_graph
from adapter.graph.validation import validate
from examples.permits.cases import Activity
from examples.permits.derive import (
    ACTION,
    OWN_NODES,
    Derived,
    definition_key,
    derive,
    node_ids,
    step_runs,
)

NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=90
)


def _activity(name: str, *, events: int = 1, starts: int = 1, ends: int = 1) -> Activity:
    return Activity(name, events, starts, ends)


def _errors(derived: Derived) -> list[Any]:
    found = validate(derived.document, known_actions={ACTION})
    return [finding for finding in found if finding.severity == "error"]


def _walk(graph: Graph, rows: list[dict[str, Any]]) -> list[str]:
    """The action nodes that a case of those rows passes, as the graph's own choices lead it."""
    names: dict[str, Any] = {"trigger": rows[0], "steps": {}}
    passed: list[str] = []
    node = graph.trigger
    rest = iter(rows[1:])
    while node.type != "end":
        if node.type == "action":
            passed.append(node.id)
        elif node.type == "wait":
            names["steps"] = {"next": {"output": next(rest), "outcome": "success"}}
        to = node.choose("success", names).to
        assert to is not None
        node = graph.nodes[to]
    assert next(rest, None) is None
    return passed


def _rows(activities: list[str]) -> list[dict[str, Any]]:
    last = len(activities) - 1
    return [{"activity": name, "last": seq == last} for seq, name in enumerate(activities)]


def test_each_activity_is_one_action_with_its_name() -> None:
    derived = derive("permits", [_activity("Receive application"), _activity("Décide")])

    actions = {n["id"]: n["name"] for n in derived.document["nodes"] if n["type"] == "action"}
    assert actions == {"receive_application": "Receive application", "decide": "Décide"}
    assert derived.nodes == {name: node for node, name in actions.items()}


def test_the_graph_is_the_same_whatever_the_order_of_the_activities() -> None:
    activities = [_activity(name) for name in ("a", "A", "b b", "b-b", "ä")]

    assert derive("log", activities) == derive("log", activities[::-1])


def test_the_common_activities_are_tried_first() -> None:
    derived = derive("log", [_activity("rare", events=1), _activity("common", events=9)])

    route = [edge["to"] for edge in derived.document["edges"] if edge["from"] == "route"]
    assert route == ["common", "rare"]


def test_only_what_the_log_shows_is_an_edge() -> None:
    derived = derive("log", [_activity("a", ends=0), _activity("b", starts=0)])

    edges = {(edge["from"], edge["to"]) for edge in derived.document["edges"]}
    assert edges == {
        ("trigger", "first"),
        ("first", "a"),
        ("a", "next"),
        ("next", "route"),
        ("route", "a"),
        ("route", "b"),
        ("b", "next"),
        ("b", "done"),
    }


def test_a_case_of_one_row_is_closed_at_once() -> None:
    derived = derive("log", [_activity("a")])

    assert _walk(compile_graph(derived.document), _rows(["a"])) == ["a"]
    assert step_runs(1) == len(["trigger", "first", "a", "done"])


def test_two_rows_take_three_step_runs_more_than_one() -> None:
    assert step_runs(2) == len(["trigger", "first", "a", "next", "route", "a", "done"])


@pytest.mark.parametrize("activities", [[], [_activity("a"), _activity("a")]])
def test_a_log_without_activities_or_with_one_twice_is_refused(activities: list[Activity]) -> None:
    with pytest.raises(InvalidInput, match="activities"):
        derive("log", activities)


def test_names_that_differ_in_unsafe_characters_only_get_ids_of_their_own() -> None:
    ids = node_ids(["a b", "a-b", "a  b", "A B", "a_b_2"])

    assert sorted(ids.values()) == ["a_b", "a_b_2", "a_b_2_2", "a_b_3", "a_b_4"]


def test_names_that_differ_beyond_the_limit_only_get_ids_of_their_own() -> None:
    ids = node_ids(["x" * 70 + end for end in "abc"])

    assert sorted(map(len, ids.values())) == [64, 64, 64]
    assert len(set(ids.values())) == 3


def test_names_of_the_graph_s_own_nodes_are_left_to_it() -> None:
    assert not set(node_ids([*OWN_NODES, *map(str.upper, OWN_NODES)]).values()) & set(OWN_NODES)


def test_names_without_a_safe_character_get_an_id_too() -> None:
    assert set(node_ids(["許可", "🏗️", "7"]).values()) == {"activity", "activity_2", "a_7"}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("permit-receipt-log", "permit-receipt-log"),
        ("Wabo 2011 (final)", "Wabo-2011-final"),
        ("許可", "log"),
        ("x" * 150, "x" * 100),
    ],
)
def test_the_key_is_the_name_made_safe(name: str, key: str) -> None:
    assert definition_key(name) == key
    assert derive(name, [_activity("a")]).event == f"{key}.row"


def test_a_name_beyond_what_a_graph_carries_is_cut_but_still_chosen() -> None:
    long = ["n" * 300, "n" * 299 + "m"]
    derived = derive("log", [_activity(name) for name in long])

    assert _errors(derived) == []
    passed = _walk(compile_graph(derived.document), _rows(long))
    assert passed == [derived.nodes[name] for name in long]


def test_thousands_of_activities_make_a_valid_graph() -> None:
    names = [f"Step {number:04} of the procedure" for number in range(1_500)]
    derived = derive("log", [_activity(name, ends=0) for name in names])

    assert len(set(derived.nodes.values())) == 1_500


@given(st.sets(NAMES, min_size=1, max_size=30))
def test_every_set_of_names_gets_safe_and_distinct_ids(names: set[str]) -> None:
    ids = node_ids(names)

    assert ids.keys() == names
    assert len(set(ids.values())) == len(names)
    assert all(re.fullmatch("[a-z][a-z0-9_]{0,63}", node) for node in ids.values())


@given(st.lists(NAMES, min_size=1, max_size=8))
def test_any_case_passes_its_activities_in_order(case: list[str]) -> None:
    derived = derive("log", [_activity(name) for name in set(case)])

    assert _errors(derived) == []
    passed = _walk(compile_graph(derived.document), _rows(case))
    assert passed == [derived.nodes[name] for name in case]


@given(st.sampled_from(["${trigger.case}", "$${", "a ${", "$$${x}", "{}", "$"]))
def test_names_that_look_like_expressions_are_names(name: str) -> None:
    derived = derive("log", [_activity(name), _activity("other")])

    assert _errors(derived) == []
    assert _walk(compile_graph(derived.document), _rows([name, "other", name])) == [
        derived.nodes[name],
        derived.nodes["other"],
        derived.nodes[name],
    ]
