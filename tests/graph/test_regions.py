from __future__ import annotations

from typing import Any

import pytest

from adapter.errors import InvalidDocument
from adapter.graph.compiled import compile_graph
from adapter.graph.regions import MAX_NESTED
from adapter.graph.validation import validate
from tests.graph.documents import action, document, findings, node
from tests.graph.wrong_structures import for_each, nested, parallel, repeat

READS_A = {"action": "x", "input": {"x": "${ steps.a.output }"}}
READS_ITEM = {"action": "x", "input": {"x": "${ item }"}}
IT_TO_C = {"from": "it", "to": "c"}


def owners(value: Any) -> dict[str, str]:
    return dict(compile_graph(value).owner_of)


def test_the_nodes_that_edges_reach_from_a_body_belong_to_its_owner() -> None:
    value = document(
        [
            node("parallel", {"branches": {"x": "a", "y": "loop"}}, "par"),
            action("a"),
            action("b"),
            node("for_each", {"items": [1], "body": "c"}, "loop"),
            action("c"),
            action("d"),
            action("after"),
        ],
        [
            {"from": "par", "to": "after"},
            {"from": "a", "to": "b"},
            {"from": "b", "to": "a", "on": "again"},
            {"from": "loop", "to": "d"},
        ],
        settings={"limits": {"max_steps": 100}},
    )

    assert validate(value) == []
    assert owners(value) == {"a": "par", "b": "par", "loop": "par", "d": "par", "c": "loop"}


def test_a_graph_without_bodies_has_no_owners() -> None:
    assert owners(document([action()])) == {}


def test_an_end_inside_a_body_is_allowed() -> None:
    value = document(
        [node("for_each", {"items": [1], "body": "stop"}), node("end", {}, "stop")],
    )

    assert validate(value) == []


def test_bodies_may_be_nested_thirty_two_deep() -> None:
    assert validate(nested(MAX_NESTED)) == []
    assert len(owners(nested(MAX_NESTED))) == MAX_NESTED


@pytest.mark.parametrize("depth", [33, 100, 1_900])
def test_deeper_nesting_is_found_once_and_not_run(depth: int) -> None:
    assert findings(nested(depth)) == {("nested_too_deep", "/nodes/33/config/body")}
    with pytest.raises(InvalidDocument):
        compile_graph(nested(depth))


def test_five_thousand_levels_are_a_finding_too() -> None:
    assert ("document_too_large", "/nodes") in findings(nested(5_000))


def test_a_region_of_two_thousand_nodes_in_a_chain_is_found() -> None:
    chain = [action(f"n{i}") for i in range(1_990)]
    edges = [{"from": f"n{i}", "to": f"n{i + 1}"} for i in range(1_989)]
    value = document([node("for_each", {"items": [1], "body": "n0"}), *chain], edges)

    assert validate(value) == []
    assert set(owners(value).values()) == {"it"}


def test_branches_that_meet_in_one_node_are_told_at_the_edge_that_comes_second() -> None:
    value = parallel({}, {"from": "a", "to": "c"}, {"from": "b", "to": "c"})

    (found,) = validate(value)
    assert (found.code, found.pointer) == ("edge_leaves_region", "/edges/2/to")
    assert "branch 'b' of 'it'" in found.message
    assert "branch 'a' of 'it'" in found.message
    assert "owner" in found.remedy


def test_nodes_that_own_each_other_are_found() -> None:
    value = document(
        [
            action("a"),
            node("for_each", {"items": [1], "body": "q"}, "p"),
            node("for_each", {"items": [1], "body": "p"}, "q"),
        ]
    )

    assert ("owner_in_region", "/nodes/3/config/body") in findings(value)


def test_an_owner_that_only_its_own_body_leads_to_is_found_whichever_stands_first() -> None:
    owner, inner = node("for_each", {"items": [1], "body": "e"}, "o"), action("e")
    back = [{"from": "e", "to": "o"}]

    for nodes in ([action("a"), owner, inner], [action("a"), inner, owner]):
        errors = [f for f in validate(document(nodes, back)) if f.severity == "error"]
        assert errors
        with pytest.raises(InvalidDocument):
            compile_graph(document(nodes, back))


def test_a_body_that_is_not_known_hides_no_other_finding_and_adds_none() -> None:
    value = for_each({"body": "aa"}, IT_TO_C, c={"action": "x", "input": {"x": "${ steps.z }"}})

    assert findings(value) == {
        ("unknown_node", "/nodes/1/config/body"),
        ("unknown_step", "/nodes/4/config/input/x"),
    }


def test_a_config_with_another_mistake_does_not_make_its_body_unreachable() -> None:
    value = for_each({"concurrency": 0}, a=READS_ITEM)

    assert findings(value) == {("invalid_field", "/nodes/1/config/concurrency")}


@pytest.mark.parametrize(
    "value",
    [
        # a for_each's body reads its item, also deeper inside, on edges and in templates of owners
        for_each({}, {"from": "a", "to": "b", "when": "item > 1"}, a=READS_ITEM, b=READS_ITEM),
        document(
            [
                node("for_each", {"items": [[1], [2]], "body": "it"}, "outer"),
                node("for_each", {"items": "${ item }", "body": "act"}),
                {**action(), "config": READS_ITEM},
            ]
        ),
        document(
            [
                node(
                    "start_workflow",
                    {"workflow": "w", "items": "${ trigger.rows }", "input": {"n": "${ item }"}},
                )
            ]
        ),
        # the branches of a parallel, and the last iteration of a repeat, are visible afterwards
        parallel({}, IT_TO_C, c=READS_A),
        parallel({}, {**IT_TO_C, "when": "steps.b.output == 1"}),
        repeat({"until": "true"}, IT_TO_C, c=READS_A),
        # a repeat's condition reads the steps of its body
        repeat({"until": "steps.a.output == 1"}),
        repeat({"while": {"field": "steps.b.output", "op": "exists"}}, {"from": "a", "to": "b"}),
        # an iteration may read the one before
        repeat(
            {"until": "true"},
            {"from": "a", "to": "b"},
            a={"action": "x", "input": {"x": "${ has(steps.b) ? steps.b.output : 0 }"}},
        ),
        # the body of a for_each reads its own steps, and those before the owner
        for_each({}, {"from": "a", "to": "b"}, b=READS_A),
        document(
            [
                action("first"),
                node("for_each", {"items": "${ steps.first.output }", "body": "act"}),
                {**action(), "config": {"action": "x", "input": {"x": "${ steps.first }"}}},
            ],
            [{"from": "first", "to": "it"}],
        ),
    ],
)
def test_what_can_be_read_inside_and_after_bodies_is_not_told(value: Any) -> None:
    known = {"unreachable_node"}

    assert [f for f in validate(value) if f.code not in known] == []


@pytest.mark.parametrize(
    ("code", "value"),
    [
        # a sibling branch, the owner's own end, the owner's config, an edge inside the body
        ("step_never_before", parallel({}, b=READS_A)),
        ("step_never_before", for_each({}, a={"action": "x", "input": {"x": "${ steps.it }"}})),
        ("step_never_before", for_each({"items": "${ steps.c.output }"}, IT_TO_C)),
        ("step_never_before", repeat({"until": "steps.c.output"}, IT_TO_C)),
        # an item's step: after the join, on the edges of its owner, in a repeat around it
        ("step_not_visible", for_each({}, IT_TO_C, c=READS_A)),
        ("step_not_visible", for_each({}, {**IT_TO_C, "when": "steps.a.output == 1"})),
        (
            "step_not_visible",
            document(
                [
                    node("repeat", {"body": "it", "until": "steps.act.output"}, "again"),
                    node("for_each", {"items": [1], "body": "act"}),
                    action(),
                ]
            ),
        ),
    ],
)
def test_what_cannot_have_a_value_there_is_warned_of(code: str, value: Any) -> None:
    assert code in {finding.code for finding in validate(value)}
