"""Findings about bodies: that they exist, and that their regions are disjoint, closed, not deep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.graph.findings import Finding, find
from adapter.graph.regions import MAX_NESTED, Region
from adapter.graph.suggestions import Suggester

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adapter.graph.configs import Body
    from adapter.graph.edge_checks import EdgeChecks
    from adapter.graph.node_checks import NodeSeen
    from adapter.graph.structure import Structure


def check_regions(
    nodes: Mapping[str, NodeSeen], edges: EdgeChecks, structure: Structure
) -> Iterator[Finding]:
    """Yields what is wrong with bodies and the edges around them.

    Args:
        nodes: By id.
        edges: After they have all been looked at.
        structure: Made of both.
    """
    checks = _Checks(nodes, edges, structure)
    yield from checks.entries()
    regions = structure.regions
    for region in regions.too_deep:
        if region.owner is not None and region.body is not None:
            message = f"the body stands in {MAX_NESTED} others already"
            yield checks.at_body("nested_too_deep", region.owner, region.body, message)
    if regions.too_deep:
        return
    for owner, body in regions.misplaced:
        yield from checks.misplaced(owner, body)
    for begin, end in regions.crossings:
        if nodes[end].type != "trigger":
            yield from checks.crossing(begin, end)


class _Checks:
    def __init__(
        self, nodes: Mapping[str, NodeSeen], edges: EdgeChecks, structure: Structure
    ) -> None:
        self._nodes = nodes
        self._edges = edges
        self._structure = structure
        self._home = structure.regions.home
        self._asked: set[str] = set()
        self._before: dict[str, list[str]] = {}
        for begin, end in edges.places:
            self._before.setdefault(end, []).append(begin)

    def entries(self) -> Iterator[Finding]:
        """Yields bodies that begin with a node that does not exist."""
        suggester = Suggester(self._nodes)
        for owner, bodies in self._structure.bodies.items():
            for body in bodies:
                if body.entry not in self._nodes:
                    message = f"there is no node {body.entry!r}{suggester.closest(body.entry)}"
                    yield self.at_body("unknown_node", owner, body, message)

    def misplaced(self, owner: str, body: Body) -> Iterator[Finding]:
        """Yields why the entry of a body cannot be in its region."""
        entry, home = body.entry, self._home[body.entry]
        if self._nodes[entry].type == "trigger":
            message = f"{entry!r} is the trigger, where the instance begins"
            yield self.at_body("trigger_in_region", owner, body, message)
        elif entry == owner or entry in self._home[owner].owners():
            message = f"the body begins with {entry!r}, which is around it"
            yield self.at_body("owner_in_region", owner, body, message)
        elif places := self._edges_into(entry):
            message = f"{entry!r} begins a body of {owner!r}, and only {owner!r} can begin it"
            for index in places:
                yield find("edge_into_region", ("edges", index, "to"), message)
        else:
            message = f"{entry!r} belongs to {_named(home)} already"
            yield self.at_body("region_shared", owner, body, message)

    def crossing(self, begin: str, end: str) -> Iterator[Finding]:
        """Yields the edges from one node to another that is not in the same region."""
        here, there = self._home[begin], self._home[end]
        if here.owner is None:
            code, message = "edge_into_region", f"{end!r} belongs to {_named(there)}"
        elif end in here.owners():
            code, message = "owner_in_region", f"the edge leads from inside {end!r} back to it"
        else:
            code = "edge_leaves_region"
            message = f"{begin!r} belongs to {_named(here)}, but {end!r} to {_named(there)}"
        for index in self._edges.places[begin, end]:
            yield find(code, ("edges", index, "to"), message)

    def _edges_into(self, entry: str) -> list[int]:
        """The edges from the region that an entry is in, when asked for the first time.

        None if it begins that region itself: then two bodies have the same entry.
        """
        home = self._home[entry]
        if entry in self._asked or (home.body is not None and home.body.entry == entry):
            return []
        self._asked.add(entry)
        before = [node for node in self._before.get(entry, ()) if self._home[node] is home]
        return sorted(index for node in before for index in self._edges.places[node, entry])

    def at_body(self, code: str, owner: str, body: Body, message: str) -> Finding:
        """A finding at the place where a body is named."""
        return find(code, ("nodes", self._nodes[owner].index, "config", *body.path), message)


def _named(region: Region) -> str:
    if region.owner is None or region.body is None:
        return "the main line"
    if region.body.path == (region.body.name,):
        return f"the body of {region.owner!r}"
    return f"branch {region.body.name!r} of {region.owner!r}"
