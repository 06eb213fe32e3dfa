"""Findings about edges: their ends, and whether each can ever be taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.document import Edge
from adapter.graph.findings import Finding, find
from adapter.graph.shapes import check_shape
from adapter.graph.suggestions import Suggester

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapter.graph.expression_checks import ExpressionChecks
    from adapter.graph.node_checks import NodeSeen


class EdgeChecks:
    """Looks at the edges in the order of the document.

    Attributes:
        findings: What was wrong.
        successors: For each node id, where its edges lead; only edges between known nodes.
        plain: The ids of nodes with a plain edge.
        sources: For each edge of a known node, by index, that node.
        places: For each (from, to), the indexes of the edges; only those between known nodes.
        complete: Whether every edge joins two known nodes.
    """

    def __init__(self, nodes: Mapping[str, NodeSeen], expressions: ExpressionChecks) -> None:
        self._nodes = nodes
        self._expressions = expressions
        self._taken: dict[str, set[str]] = {}
        self._suggester = Suggester(nodes)
        self.findings: list[Finding] = []
        self.successors: dict[str, list[str]] = {}
        self.plain: set[str] = set()
        self.sources: dict[int, str] = {}
        self.places: dict[tuple[str, str], list[int]] = {}
        self.complete = True

    def check(self, index: int, value: Any) -> None:
        """Looks at one edge."""
        path = ("edges", index)
        if not isinstance(value, dict):
            self.complete = False
            self.findings.append(find("invalid_field", path, "an edge is an object"))
            return
        begin = value.get("from")
        if isinstance(begin, str) and begin in self._nodes:
            self.sources[index] = begin
        edge, wrong = check_shape(Edge, value, path)
        self.findings += wrong
        if value.get("when") is not None:
            self._expressions.condition(value["when"], (*path, "when"))
        if edge is None:
            self.complete = False
            return
        self._ends(edge, index)
        self._way(edge, index)

    def outcomes(self, node_id: str) -> frozenset[str]:
        """The outcomes that have an edge of their own."""
        return frozenset(self._taken.get(node_id, ()))

    def _ends(self, edge: Edge, index: int) -> None:
        for field, node_id in (("from", edge.from_), ("to", edge.to)):
            if node_id not in self._nodes:
                message = f"there is no node {node_id!r}{self._suggester.closest(node_id)}"
                self._find("unknown_node", index, field, message)
                self.complete = False
        if edge.from_ in self._nodes and edge.to in self._nodes:
            self.successors.setdefault(edge.from_, []).append(edge.to)
            self.places.setdefault((edge.from_, edge.to), []).append(index)
            if self._nodes[edge.to].type == "trigger":
                self._find("edge_into_trigger", index, "to", "nothing leads into a trigger")

    def _way(self, edge: Edge, index: int) -> None:
        """Whether outcome, condition or neither lets it be taken."""
        node = self._nodes.get(edge.from_)
        if node is not None and node.config is not None and not node.config.MAY_LEAVE:
            self._find("edge_from_end", index, "from", f"no edge can leave {edge.from_!r}")
        elif edge.on is not None and edge.when is not None:
            self._find("on_and_when", index, "when", "the edge has both 'on' and 'when'")
        elif edge.on is not None:
            self._outcome(edge.on, node, edge.from_, index)
        elif edge.when is not None:
            if edge.from_ in self.plain:
                message = "the plain edge of the node stands before it, but is taken after it"
                self._find("condition_after_plain", index, "when", message)
        elif edge.from_ in self.plain:
            message = f"node {edge.from_!r} has a plain edge already"
            self.findings.append(find("second_plain_edge", ("edges", index), message))
        else:
            self.plain.add(edge.from_)

    def _outcome(self, on: str, node: NodeSeen | None, from_: str, index: int) -> None:
        taken = self._taken.setdefault(from_, set())
        if on in taken:
            self._find("duplicate_on", index, "on", f"node {from_!r} has an edge on {on!r} already")
        taken.add(on)
        outcomes = None if node is None or node.config is None else node.config.outcomes()
        if outcomes is not None and on not in outcomes:
            known = ", ".join(sorted(outcomes))
            message = f"node {from_!r} never has outcome {on!r}{Suggester(outcomes).closest(on)}"
            self._find("impossible_outcome", index, "on", message, remedy=f"its outcomes: {known}")

    def _find(
        self, code: str, index: int, field: str, message: str, *, remedy: str | None = None
    ) -> None:
        self.findings.append(find(code, ("edges", index, field), message, remedy=remedy))
