"""One module per node type: what entering such a node leads to.

A module names its ``TYPE`` and has one function, ``enter(draft, node, visit)``; one of a structure
node has ``go_on(draft, node, scope)`` too. Adding a node type means adding a file here and one in
``adapter/graph/nodes``; nothing else lists them.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit
    from adapter.interpreter.structure import Scope


class NodeModule(Protocol):
    """What every module of this package provides."""

    TYPE: str

    def enter(self, draft: Draft, node: CompiledNode, visit: Visit) -> None:
        """Adds to the draft what entering the node leads to."""
        ...


class StructureModule(NodeModule, Protocol):
    """What the modules of nodes that own lines provide beside."""

    def go_on(self, draft: Draft, node: CompiledNode, scope: Scope) -> None:
        """Adds to the draft what follows from the end of one of the scope's lines."""
        ...


@cache
def node_modules() -> dict[str, NodeModule]:
    """All node types by their name."""
    found = [
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
    ]
    return {module.TYPE: cast("NodeModule", module) for module in found}


def module_for(node_type: str) -> NodeModule:
    """The module of a node type; the graph was validated, so it exists."""
    return node_modules()[node_type]


def structure_for(kind: str) -> StructureModule:
    """The module of a structure node's type."""
    return cast("StructureModule", module_for(kind))
