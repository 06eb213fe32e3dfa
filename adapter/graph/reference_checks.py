"""Findings about what expressions read: names and steps that have no value at their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.graph.findings import Finding, find
from adapter.graph.references import EVENT, ITEM
from adapter.graph.suggestions import Suggester

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapter.graph.edge_checks import EdgeChecks
    from adapter.graph.expression_checks import Path
    from adapter.graph.node_checks import NodeSeen
    from adapter.graph.references import References
    from adapter.graph.structure import Structure


def check_references(
    read: Sequence[tuple[Path, References]],
    nodes: Mapping[str, NodeSeen],
    edges: EdgeChecks,
    structure: Structure,
) -> Iterator[Finding]:
    """Yields what is read where it has no value.

    Args:
        read: (place, what is read there).
        nodes: By id.
        edges: After they have all been looked at.
        structure: Made of both.
    """
    checks = _Checks(nodes, edges, structure)
    for path, refs in read:
        here = checks.node_at(path)
        yield from checks.names(path, refs.names, here)
        for step in sorted(refs.steps or ()):
            yield from checks.step(path, step, here)


class _Checks:
    def __init__(
        self, nodes: Mapping[str, NodeSeen], edges: EdgeChecks, structure: Structure
    ) -> None:
        self._nodes = nodes
        self._edges = edges
        self._structure = structure
        self._ids = {node.index: node_id for node_id, node in nodes.items()}
        self._suggester = Suggester(nodes)
        self._placed = edges.complete and structure.sound

    def node_at(self, path: Path) -> str | None:
        """The node whose config or whose edge a path leads into."""
        index = int(path[1])
        return self._edges.sources.get(index) if path[0] == "edges" else self._ids.get(index)

    def names(self, path: Path, names: frozenset[str], here: str | None) -> Iterator[Finding]:
        """Yields the names that have no value there."""
        if ITEM in names and not self._has_item(path, here):
            message = "'item' has a value only inside for_each, or in an input with 'items'"
            yield find("name_not_available", path, message)
        if here is not None and path[0] == "nodes" and self._nodes[here].type == "trigger":
            for name in sorted(names - {"trigger", EVENT, ITEM}):
                message = f"{name!r} has no value before the instance has begun"
                yield find("name_not_available", path, message)

    def step(self, path: Path, step: str, here: str | None) -> Iterator[Finding]:
        """Yields why a step cannot be read there."""
        if step not in self._nodes:
            message = f"there is no node {step!r}{self._suggester.closest(step)}"
            yield find("unknown_step", path, message)
        elif here is None or not self._placed:
            return
        elif hiding := self._structure.hides(step, here):
            message = f"{step!r} is part of the body of {hiding!r}, which runs once for each item"
            yield find("step_not_visible", path, message)
        elif not self._may_precede(path, step, here):
            yield find("step_never_before", path, f"{step!r} cannot have run before {here!r}")

    def _may_precede(self, path: Path, step: str, here: str) -> bool:
        """An edge is chosen after its own node has ended, a repeat asks after its body has."""
        if path[0] == "edges":
            return step == here or self._structure.may_precede(step, here, at_end=True)
        config = self._nodes[here].config
        asked = config is not None and config.OWNS and path[3] in config.CONDITIONS
        return self._structure.may_precede(step, here, at_end=asked)

    def _has_item(self, path: Path, here: str | None) -> bool:
        config = None if here is None else self._nodes[here].config
        if path[0] == "nodes" and config is not None and path[3] in config.per_item():
            return True
        if here is not None and self._placed:
            return self._structure.has_item(here)
        return any(node.binds_item for node in self._nodes.values())
