"""Findings about the whole graph: reachability, loops and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.graph.findings import Finding, find
from adapter.graph.traversal import loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapter.graph.edge_checks import EdgeChecks
    from adapter.graph.node_checks import NodeSeen
    from adapter.graph.structure import Structure

_SHOWN = 8


def check_reachability(nodes: Mapping[str, NodeSeen], structure: Structure) -> Iterator[Finding]:
    """Yields the nodes that no path from the trigger leads to, through edges or bodies."""
    for node_id, node in nodes.items():
        if not structure.reachable(node_id):
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

    A loop is made of edges; the iterations of a repeat have their bound. A loop in which a node
    waits may go on for as long as the world goes on, and is left alone.

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
        if not idle.issuperset(part) and not any(_may_wait(nodes[node_id]) for node_id in part):
            message = f"only the general limit of steps bounds the loop of {_names(part)}"
            yield find("unbounded_loop", ("nodes", nodes[part[0]].index), message)


def _may_wait(node: NodeSeen) -> bool:
    """Whether a node waits, as far as that is known."""
    return node.config is None or node.config.waits()


def _covers(node: NodeSeen, taken: frozenset[str]) -> bool:
    """Whether the edges on outcomes leave nothing open, failures aside."""
    outcomes = None if node.config is None else node.config.outcomes()
    return outcomes is not None and outcomes - {"failure"} <= taken


def _names(part: Sequence[str]) -> str:
    shown = ", ".join(part[:_SHOWN])
    return f"{shown} and {len(part) - _SHOWN} more" if len(part) > _SHOWN else shown
