"""Regions: which nodes belong to the body of which other node.

A body names the node that it begins with; its region is what edges reach from there. Regions are
disjoint and closed: a line of a body ends inside it, at a node with no edge to take.

Every node gets one home. Regions claim their nodes from the outside in: first the main line, then
the bodies of its nodes, then the bodies of theirs. So where two regions meet, the edge or body that
comes second is the one that is told. Iterative throughout, like all walks over graphs here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from adapter.graph.configs import Body

MAX_NESTED: Final = 32
"""How deep bodies may stand inside one another."""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The nodes of one body, or those of the main line; compared by identity.

    Attributes:
        owner: The node that the body belongs to; None for the main line.
        body: The body; None likewise.
        outer: The region that the owner is in; None likewise.
        depth: How many bodies it stands in: 0 for the main line.
    """

    owner: str | None = None
    body: Body | None = None
    outer: Region | None = None
    depth: int = 0

    def around(self) -> Iterator[Region]:
        """Itself and the regions that it stands in, outwards."""
        region: Region | None = self
        while region is not None:
            yield region
            region = region.outer

    def owners(self) -> Iterator[str]:
        """The nodes that own it, the nearest first."""
        for region in self.around():
            if region.owner is not None:
                yield region.owner


@dataclass(slots=True)
class Regions:
    """The regions of a graph and where they do not fit together.

    Attributes:
        home: The region of each node.
        bodies: The regions of bodies that have nodes, in the order in which they claimed them.
        misplaced: (owner, body) of bodies whose entry has another home already; their region does
            not exist.
        crossings: (from, to) of edges between nodes of different homes, each once.
        too_deep: Regions one level deeper than allowed; what stands in them is not told again.
    """

    home: dict[str, Region] = field(default_factory=dict)
    bodies: list[Region] = field(default_factory=list)
    misplaced: list[tuple[str, Body]] = field(default_factory=list)
    crossings: list[tuple[str, str]] = field(default_factory=list)
    too_deep: list[Region] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether they are disjoint, closed and not too deep."""
        return not (self.misplaced or self.crossings or self.too_deep)

    def owner_of(self) -> dict[str, str]:
        """The owner of each node that has one."""
        return {
            node: region.owner for node, region in self.home.items() if region.owner is not None
        }


def find_regions(
    nodes: Iterable[str],
    successors: Mapping[str, Sequence[str]],
    bodies: Mapping[str, Sequence[Body]],
    begins: Iterable[str],
) -> Regions:
    """Gives every node its home.

    Nodes that neither an edge nor a body leads to are treated as a main line of their own.

    Args:
        nodes: All nodes.
        successors: Where the edges of each node lead.
        bodies: The bodies of each node that has any; entries that are no nodes are passed over.
        begins: Where the main line begins.
    """
    known = dict.fromkeys(nodes)
    search = _Search(
        successors, {n: [b for b in all_ if b.entry in known] for n, all_ in bodies.items()}
    )
    led_to = {to for all_ in successors.values() for to in all_}
    led_to |= {body.entry for all_ in search.bodies.values() for body in all_}
    for begin in (*begins, *(node for node in known if node not in led_to), *known):
        if begin not in search.found.home:
            search.claim(begin, Region())
            search.claim_bodies()
    search.look_at_edges(known)
    return search.found


class _Search:
    def __init__(
        self, successors: Mapping[str, Sequence[str]], bodies: Mapping[str, Sequence[Body]]
    ) -> None:
        self._successors = successors
        self.bodies = bodies
        self.found = Regions()
        self._owners: deque[str] = deque()

    def claim(self, begin: str, region: Region) -> None:
        """Gives the region every node that edges reach and that has no home yet."""
        home = self.found.home
        home[begin] = region
        waiting = [begin]
        while waiting:
            node = waiting.pop()
            if node in self.bodies:
                self._owners.append(node)
            for after in self._successors.get(node, ()):
                if after not in home:
                    home[after] = region
                    waiting.append(after)

    def claim_bodies(self) -> None:
        """Does the same for the bodies of all owners found so far, from the outside in."""
        found = self.found
        while self._owners:
            owner = self._owners.popleft()
            outer = found.home[owner]
            for body in self.bodies[owner]:
                if body.entry in found.home:
                    found.misplaced.append((owner, body))
                    continue
                region = Region(owner, body, outer, outer.depth + 1)
                if region.depth == MAX_NESTED + 1:
                    found.too_deep.append(region)
                found.bodies.append(region)
                self.claim(body.entry, region)

    def look_at_edges(self, nodes: Iterable[str]) -> None:
        """Collects the edges between regions."""
        home = self.found.home
        for node in nodes:
            for after in dict.fromkeys(self._successors.get(node, ())):
                if home[node] is not home[after] and not self._both_main(node, after):
                    self.found.crossings.append((node, after))

    def _both_main(self, node: str, after: str) -> bool:
        """Lines that nothing leads to may run into the main line: they are only unreachable."""
        home = self.found.home
        return home[node].owner is None and home[after].owner is None
