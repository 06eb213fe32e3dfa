"""Findings about the whole graph: reachability, loops, decisions, and what can be read where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.graph.findings import Finding, find
from adapter.graph.suggestions import Suggester
from adapter.graph.traversal import Reach, loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapter.graph.edge_checks import EdgeChecks
    from adapter.graph.expression_checks import Path
    from adapter.graph.node_checks import NodeSeen
    from adapter.graph.references import References

_SHOWN = 8


def check_reachability(nodes: Mapping[str, NodeSeen], reach: Reach) -> Iterator[Finding]:
    """Yields the nodes that no path from the trigger leads to."""
    triggers = [node_id for node_id, node in nodes.items() if node.type == "trigger"]
    for node_id, node in nodes.items():
        if triggers and node.type != "trigger" and not _any_leads(reach, triggers, node_id):
            message = f"no path leads from the trigger to {node_id!r}"
            yield find("unreachable_node", ("nodes", node.index), message)


def check_decisions(nodes: Mapping[str, NodeSeen], edges: EdgeChecks) -> Iterator[Finding]:
    """Yields decisions that find no edge, always or sometimes."""
    leaving = set(edges.sources.values())
    for node_id, node in nodes.items():
        if node.type != "decision":
            continue
        if node_id not in leaving:
            message = f"no edge leaves decision {node_id!r}, so it always fails the instance"
            yield find("decision_without_edges", ("nodes", node.index), message)
        elif node_id not in edges.plain and not _covers(node, edges.outcomes(node_id)):
            message = f"decision {node_id!r} has no plain edge"
            yield find("no_default_edge", ("nodes", node.index), message)


def check_loops(
    nodes: Mapping[str, NodeSeen], successors: Mapping[str, Sequence[str]], *, bounded: bool
) -> Iterator[Finding]:
    """Yields loops that cannot end, and those without a bound of their own.

    Args:
        nodes: By id.
        successors: Where the edges of each node lead.
        bounded: Whether the document itself limits the steps of an instance.
    """
    idle = {
        node_id
        for node_id, node in nodes.items()
        if node.config is not None and not node.config.CHANGES
    }
    within = {node_id: [to for to in successors.get(node_id, ()) if to in idle] for node_id in idle}
    for part in loops([node_id for node_id in nodes if node_id in idle], within):
        message = f"nothing changes in the loop of {_names(part)}, so it can never end"
        yield find("endless_loop", ("nodes", nodes[part[0]].index), message)
    if bounded:
        return
    for part in loops(nodes, successors):
        if not idle.issuperset(part):
            message = f"only the general limit of steps bounds the loop of {_names(part)}"
            yield find("unbounded_loop", ("nodes", nodes[part[0]].index), message)


def check_references(
    read: Sequence[tuple[Path, References]],
    nodes: Mapping[str, NodeSeen],
    edges: EdgeChecks,
    reach: Reach,
) -> Iterator[Finding]:
    """Yields what is read where it has no value.

    Args:
        read: (place, what is read there).
        nodes: By id.
        edges: After they have all been looked at.
        reach: Made of them.
    """
    ids = {node.index: node_id for node_id, node in nodes.items()}
    suggester = Suggester(nodes)
    for path, refs in read:
        if "item" in refs.names:
            yield find("name_not_available", path, "'item' has a value only inside for_each")
        on_edge = path[0] == "edges"
        here = edges.sources.get(int(path[1])) if on_edge else ids.get(int(path[1]))
        if here is not None and nodes[here].type == "trigger" and not on_edge:
            for name in sorted(refs.names - {"trigger", "event", "item"}):
                message = f"{name!r} has no value before the instance has begun"
                yield find("name_not_available", path, message)
        for step in sorted(refs.steps or ()):
            if step not in nodes:
                message = f"there is no node {step!r}{suggester.closest(step)}"
                yield find("unknown_step", path, message)
            elif here and edges.complete and not _may_precede(step, here, reach, on_edge):
                message = f"{step!r} cannot have run before {here!r}"
                yield find("step_never_before", path, message)


def _may_precede(step: str, here: str, reach: Reach, on_edge: bool) -> bool:
    """Whether a step can have ended; an edge is chosen after its own node has."""
    return (on_edge and step == here) or reach.leads(step, here)


def _any_leads(reach: Reach, begins: Sequence[str], end: str) -> bool:
    return any(reach.leads(begin, end) for begin in begins)


def _covers(node: NodeSeen, taken: frozenset[str]) -> bool:
    """Whether the edges on outcomes leave nothing open, failures aside."""
    outcomes = None if node.config is None else node.config.outcomes()
    return outcomes is not None and outcomes - {"failure"} <= taken


def _names(part: Sequence[str]) -> str:
    shown = ", ".join(part[:_SHOWN])
    return f"{shown} and {len(part) - _SHOWN} more" if len(part) > _SHOWN else shown
