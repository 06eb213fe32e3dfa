"""Validation: everything that is wrong with a document, all at once, as findings.

It never raises on a document, whatever it holds. Later checks work on what earlier ones found
sound, so that one mistake does not hide the others, nor is reported twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.document import MAX_EDGES, MAX_NODES, GraphHeader
from adapter.graph.edge_checks import EdgeChecks
from adapter.graph.expression_checks import ExpressionChecks
from adapter.graph.findings import Finding, find
from adapter.graph.flow_checks import check_decisions, check_loops, check_reachability
from adapter.graph.node_checks import KnownActions, NodeSeen, check_node
from adapter.graph.parsing import parse
from adapter.graph.reference_checks import check_references
from adapter.graph.region_checks import check_regions
from adapter.graph.shapes import check_shape
from adapter.graph.structure import Structure
from adapter.settings import Limits

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from adapter.graph.arguments import Parameters

__all__ = ["Finding", "validate"]


def validate(
    document: Mapping[str, Any] | str | bytes,
    *,
    known_actions: Collection[str] | Mapping[str, Parameters] | None = None,
    limits: Limits | None = None,
) -> list[Finding]:
    """Returns every finding, in the order of the document; no error among them means it can run.

    Args:
        document: The document, or its JSON text.
        known_actions: The names of all registered actions, or what each of their handlers takes,
            by name; None leaves actions unchecked.
        limits: The settings' bounds; None stands for the defaults.
    """
    limits = limits or Limits()
    value, findings = parse(document, limits.max_graph_bytes)
    if value is None:
        return findings
    findings += _header(value, limits)
    expressions = ExpressionChecks()
    nodes, found = _nodes(value, expressions, known_actions)
    findings += found
    edges = EdgeChecks(nodes, expressions)
    for index, edge in enumerate(_list(value, "edges", MAX_EDGES, findings)):
        edges.check(index, edge)
    structure = Structure(nodes, edges.successors)
    findings += expressions.findings
    findings += edges.findings
    findings += check_regions(nodes, edges, structure)
    findings += check_references(expressions.read, nodes, edges, structure)
    if edges.complete and structure.complete:
        findings += check_reachability(nodes, structure)
    findings += check_decisions(nodes, edges)
    findings += check_loops(nodes, edges.successors, bounded=_has_own_bound(value))
    return sorted(dict.fromkeys(findings), key=_place)


def _place(finding: Finding) -> tuple[int, int]:
    """Where a finding stands in the document: the head, then nodes, then edges."""
    _, *parts = finding.pointer.split("/")
    section = {"nodes": 1, "edges": 2}.get(parts[0], 0) if parts else 0
    numbered = section and len(parts) > 1 and parts[1].isdecimal()
    return section, int(parts[1]) if numbered else -1


def _header(value: dict[str, Any], limits: Limits) -> list[Finding]:
    shape = {key: item for key, item in value.items() if key not in ("nodes", "edges")}
    header, findings = check_shape(GraphHeader, shape, ())
    if header is None:
        return findings
    for name, own in header.settings.limits.model_dump(exclude_none=True).items():
        most = getattr(limits, name)
        if own > most:
            message = f"{name} is {own:,}, above the limit of {most:,}"
            findings.append(find("limit_too_high", ("settings", "limits", name), message))
    return findings


def _nodes(
    value: dict[str, Any],
    expressions: ExpressionChecks,
    known_actions: Collection[str] | Mapping[str, Parameters] | None,
) -> tuple[dict[str, NodeSeen], list[Finding]]:
    """The nodes by id (the first of those with the same), and what is wrong with them."""
    findings: list[Finding] = []
    nodes: dict[str, NodeSeen] = {}
    actions = None if known_actions is None else KnownActions(known_actions)
    triggers = 0
    if "nodes" not in value:
        findings.append(find("missing_field", (), "the field 'nodes' is missing"))
    for index, item in enumerate(_list(value, "nodes", MAX_NODES, findings)):
        node, found = check_node(index, item, expressions, actions)
        findings += found
        if node.type == "trigger":
            triggers += 1
            if triggers > 1:
                message = "a graph has exactly one trigger"
                findings.append(find("second_trigger", ("nodes", index), message))
        if node.id is None:
            continue
        if node.id in nodes:
            message = f"node {nodes[node.id].index} has the id {node.id!r:.80} already"
            findings.append(find("duplicate_node_id", ("nodes", index, "id"), message))
        else:
            nodes[node.id] = node
    if not triggers:
        findings.append(find("no_trigger", ("nodes",), "no node has the type 'trigger'"))
    return nodes, findings


def _list(value: dict[str, Any], field: str, most: int, findings: list[Finding]) -> list[Any]:
    items = value.get(field, [])
    if not isinstance(items, list):
        findings.append(find("invalid_field", (field,), f"{field} is a list"))
        return []
    if len(items) > most:
        message = f"there are {len(items):,} {field}; {most:,} are allowed"
        findings.append(find("document_too_large", (field,), message))
        return items[:most]
    return items


def _has_own_bound(value: dict[str, Any]) -> bool:
    settings = value.get("settings")
    limits = settings.get("limits") if isinstance(settings, dict) else None
    return isinstance(limits, dict) and limits.get("max_steps") is not None
