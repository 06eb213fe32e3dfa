"""Which parts of the names an expression reads, so that only those are handed to CEL.

Binding converts values eagerly (about half a microsecond for each), so a whole payload of 1,000 rows
for ``trigger.amount > 100`` would cost 400 times the evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapter.graph.references import EVENT, NAMES, References
from adapter.graph.syntax import Call, Comprehension, Constant, Identifier, Node, Select, children

Paths = dict[str, Any]
"""A tree of keys: each value is a deeper tree, or None where everything below is read."""

_KNOWN = frozenset((*NAMES, EVENT))


def find_paths(tree: Node) -> Paths:
    """The tree of everything that the expression reads, by top-level name."""
    paths: Paths = {}
    _collect(tree, frozenset(), paths)
    return paths


def references_of(paths: Paths) -> References:
    """The names and step ids of a tree of paths."""
    steps: frozenset[str] | None = frozenset()
    if "steps" in paths:
        below = paths["steps"]
        steps = None if below is None else frozenset(below)
    return References(frozenset(paths), steps)


def project(names: Mapping[str, Any], paths: Paths) -> dict[str, Any]:
    """The values under the paths, and nothing else.

    Raises:
        KeyError: A top-level name has no value.
    """
    return {name: _part(names[name], below) for name, below in paths.items()}


def _part(value: Any, below: Paths | None) -> Any:
    if type(value) is dict:
        if below is None:
            return value
    elif not isinstance(value, Mapping):
        return value
    elif below is None:
        return dict(value)
    return {key: _part(value[key], deeper) for key, deeper in below.items() if key in value}


def _collect(node: Node, bound: frozenset[str], paths: Paths) -> None:
    chain = _chain(node)
    if chain is not None:
        name, keys = chain
        if name in _KNOWN and name not in bound:
            _add(paths, (name, *keys))
        return
    if isinstance(node, Comprehension):
        _collect(node.source, bound, paths)
        _collect(node.initial, bound, paths)
        inner = bound | {node.variable, node.second_variable, node.accumulator}
        _collect(node.condition, inner, paths)
        _collect(node.step, inner, paths)
        _collect(node.result, bound | {node.accumulator}, paths)
        return
    for child in children(node):
        _collect(child, bound, paths)


def _chain(node: Node) -> tuple[str, tuple[str, ...]] | None:
    """The name and constant keys of ``name.a["b"]``; None if the node is anything else."""
    keys: list[str] = []
    while True:
        match node:
            case Identifier():
                return node.name, tuple(reversed(keys))
            case Select():
                keys.append(node.field)
                node = node.operand
            case Call("_[_]", (operand, Constant(str() as key))):
                keys.append(key)
                node = operand
            case _:
                return None


def _add(paths: Paths, keys: tuple[str, ...]) -> None:
    *parents, last = keys
    for key in parents:
        below = paths.setdefault(key, {})
        if below is None:
            return
        paths = below
    paths[last] = None
