from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adapter.errors import InvalidDocument
from adapter.graph.compiled import Graph, compile_graph
from adapter.graph.validation import validate
from tests.graph.documents import action, document, node

OWNERS = ["parallel", "for_each", "repeat"]


def owner(node_type: str, node_id: str, entries: list[str]) -> dict[str, Any]:
    configs: dict[str, dict[str, Any]] = {
        "parallel": {"branches": {f"b{i}": entry for i, entry in enumerate(entries)}},
        "for_each": {"items": "${ trigger.rows }", "body": entries[0]},
        "repeat": {"until": "trigger.done", "body": entries[0]},
    }
    return node(node_type, configs[node_type], node_id)


@dataclass
class Builder:
    """Builds a document whose regions are right, and knows whose each node is."""

    draw: st.DrawFn
    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    numbers: Any = field(default_factory=count)

    def region(self, owned_by: str | None, depth: int) -> str:
        """Adds the nodes of one region, a chain with ways back; returns the first one's id."""
        size = self.draw(st.integers(1, 3))
        ids = [f"n{next(self.numbers)}" for _ in range(size)]
        for node_id in ids:
            if owned_by is not None:
                self.owners[node_id] = owned_by
            kind = self.draw(st.sampled_from(["action", *OWNERS])) if depth < 4 else "action"
            if kind == "action":
                self.nodes.append(action(node_id))
                continue
            branches = self.draw(st.integers(1, 3)) if kind == "parallel" else 1
            entries = [self.region(node_id, depth + 1) for _ in range(branches)]
            self.nodes.append(owner(kind, node_id, entries))
        self.edges += [{"from": a, "to": b} for a, b in pairwise(ids)]
        if self.draw(st.booleans()):
            back = self.draw(st.sampled_from(ids))
            self.edges.append({"from": ids[-1], "to": back, "on": "failure"})
        return ids[0]


@st.composite
def structured(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, str]]:
    builder = Builder(draw)
    first = builder.region(None, 0)
    nodes = draw(st.permutations(builder.nodes))
    edges = [{"from": "begin", "to": first}, *builder.edges]
    return {**document([]), "nodes": [*document([])["nodes"], *nodes], "edges": edges}, (
        builder.owners
    )


@st.composite
def tangled(draw: st.DrawFn) -> dict[str, Any]:
    """Nodes, bodies and edges at random, seldom right."""
    ids = [f"n{i}" for i in range(draw(st.integers(1, 8)))]
    anywhere = st.sampled_from([*ids, *ids, "begin", "nowhere"])
    nodes = [
        action(node_id)
        if draw(st.booleans())
        else owner(draw(st.sampled_from(OWNERS)), node_id, draw(st.lists(anywhere, min_size=1)))
        for node_id in ids
    ]
    read = st.sampled_from(["trigger.x", "item == 1", *(f"steps.{i}.output == 1" for i in ids)])
    ends = draw(st.lists(st.tuples(st.sampled_from(ids), anywhere), max_size=10))
    return document(nodes, [{"from": a, "to": b, "when": draw(read)} for a, b in ends])


def check_regions(graph: Graph) -> None:
    """Disjoint (each node has one owner), closed, and each body begins in its own region."""
    owner_of = graph.owner_of
    for found in graph.nodes.values():
        for edge in found.edges:
            assert owner_of.get(edge.to) == owner_of.get(found.id)
        for entry in found.bodies.values():
            assert owner_of[entry] == found.id
    for node_id in owner_of:
        seen = {node_id}
        while (outer := owner_of.get(node_id)) is not None:
            assert outer not in seen
            seen.add(outer)
            node_id = outer
    entries = [entry for found in graph.nodes.values() for entry in found.bodies.values()]
    assert len(set(entries)) == len(entries)


@settings(max_examples=150, deadline=None)
@given(structured())
def test_regions_of_valid_documents_are_found_and_are_disjoint_and_closed(
    made: tuple[dict[str, Any], dict[str, str]],
) -> None:
    value, expected = made

    assert {finding.code for finding in validate(value)} <= {"unbounded_loop"}
    graph = compile_graph(value)
    assert dict(graph.owner_of) == expected
    check_regions(graph)


@settings(max_examples=200, deadline=None)
@given(structured(), st.data())
def test_an_edge_between_two_regions_is_an_error(
    made: tuple[dict[str, Any], dict[str, str]], data: st.DataObject
) -> None:
    value, expected = made
    ids = [item["id"] for item in value["nodes"][1:]]
    begin, end = data.draw(st.sampled_from(ids)), data.draw(st.sampled_from(ids))
    crossing = {"from": begin, "to": end, "on": "elsewhere"}
    assume(expected.get(begin) != expected.get(end))
    changed = {**value, "edges": [*value["edges"], crossing]}
    codes = {finding.code for finding in validate(changed) if finding.severity == "error"}

    assert codes & {"edge_leaves_region", "edge_into_region", "owner_in_region"}


@settings(max_examples=400, deadline=None)
@given(tangled())
def test_a_tangle_is_refused_with_findings_or_runs_as_regions(value: dict[str, Any]) -> None:
    errors = [finding for finding in validate(value) if finding.severity == "error"]
    try:
        graph = compile_graph(value)
    except InvalidDocument:
        assert errors
        return
    if not errors:
        check_regions(graph)
