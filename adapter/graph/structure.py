"""How the nodes of a document stand to one another, bodies included: who owns, precedes, sees whom.

Time runs through the nodes like this: a node that owns others has two moments, its beginning and
its end. Bodies begin after the one and end before the other; the edges of the owner leave from its
end. What cannot precede in this order cannot have run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.graph.regions import find_regions
from adapter.graph.traversal import Reach

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapter.graph.configs import Body
    from adapter.graph.node_checks import NodeSeen


class Structure:
    """Built from the nodes and the edges between known nodes.

    Attributes:
        bodies: Of each node that owns others and whose config is right.
        complete: Whether every body is known, and its entry too.
        regions: Whose is what.
    """

    def __init__(
        self, nodes: Mapping[str, NodeSeen], successors: Mapping[str, Sequence[str]]
    ) -> None:
        self._nodes = nodes
        self.bodies: dict[str, tuple[Body, ...]] = {}
        self.complete = True
        for node_id, node in nodes.items():
            if node.owns:
                bodies = () if node.config is None else node.config.bodies()
                self.bodies[node_id] = bodies
                known = bool(bodies) and all(body.entry in nodes for body in bodies)
                self.complete = self.complete and known
        self._triggers = [node_id for node_id, node in nodes.items() if node.type == "trigger"]
        self.regions = find_regions(nodes, successors, self.bodies, self._triggers)
        moments = [*nodes, *map(_end, self.bodies)]
        self._reach = Reach(moments, self._in_time(successors))

    @property
    def sound(self) -> bool:
        """Whether every node has a place that can be relied upon."""
        return self.complete and self.regions.sound

    def reachable(self, node: str) -> bool:
        """Whether a path leads to the node from a trigger; True when there is no trigger."""
        if not self._triggers or self._nodes[node].type == "trigger":
            return True
        return any(self._reach.leads(trigger, node) for trigger in self._triggers)

    def may_precede(self, step: str, here: str, *, at_end: bool) -> bool:
        """Whether a step can have ended when another node begins, or ends."""
        return self._reach.leads(self._end_of(step), self._end_of(here) if at_end else here)

    def hides(self, step: str, here: str) -> str | None:
        """The for_each that a step is an item's part of, when the other node is outside of it."""
        around = set(self.regions.home[here].owners())
        for owner in self.regions.home[step].owners():
            if owner not in around and self._binds_item(owner):
                return owner
        return None

    def has_item(self, here: str) -> bool:
        """Whether the node stands in a body that runs for items."""
        return any(map(self._binds_item, self.regions.home[here].owners()))

    def _binds_item(self, owner: str) -> bool:
        config = self._nodes[owner].config
        return config is not None and config.BINDS_ITEM

    def _end_of(self, node: str) -> str:
        return _end(node) if node in self.bodies else node

    def _in_time(self, successors: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        following = {self._end_of(node): list(after) for node, after in successors.items()}
        for node, bodies in self.bodies.items():
            entries = [body.entry for body in bodies if body.entry in self._nodes]
            following[node] = [*entries, _end(node)]
        for node, region in self.regions.home.items():
            if region.owner is not None and region.body is not None:
                after = following.setdefault(self._end_of(node), [])
                after.append(_end(region.owner))
                if self._nodes[region.owner].type == "repeat":
                    after.append(region.body.entry)
        return following


def _end(node: str) -> str:
    """The end of a node that owns others; no id of a node has a NUL in it."""
    return f"\0{node}"
