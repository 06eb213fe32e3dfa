"""What readers ask of a published document, as it stands in the record.

The record keeps no order of an object's fields, so branches have no order of their own: they stand
in that of the nodes that they begin with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def types_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Returns the type of each node."""
    return {node["id"]: node["type"] for node in _nodes(document)}


def branches_of(document: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Returns the names of the branches of each ``parallel`` node, in their order."""
    places = {node["id"]: place for place, node in enumerate(_nodes(document))}
    found: dict[str, tuple[str, ...]] = {}
    for node in _nodes(document):
        if node["type"] == "parallel":
            branches: dict[str, str] = node["config"]["branches"]
            found[node["id"]] = tuple(sorted(branches, key=lambda name: places[branches[name]]))
    return found


def nodes_with_items(document: Mapping[str, Any]) -> frozenset[str]:
    """Returns the nodes that start an instance for each item of a list."""
    return frozenset(
        node["id"]
        for node in _nodes(document)
        if node["type"] == "start_workflow" and node["config"].get("items") is not None
    )


def _nodes(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from document.get("nodes") or ()
