"""Which parts of the names an expression reads, so that only those are handed to CEL.

Binding converts values eagerly, about 0.1 us for each, so a payload of 1,000 rows bound as a whole
for ``trigger.amount > 100`` would cost a hundred times the evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapter.graph.kinds import kind_of
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


def project(names: Mapping[str, Any], paths: Paths, heavy: list[Any]) -> dict[str, Any]:
    """The values under the paths, and nothing else.

    Args:
        names: The scope.
        paths: From ``find_paths``.
        heavy: Receives every value bound as a whole that is more than a number or a short text.

    Raises:
        KeyError: A top-level name has no value.
    """
    return {name: _part(names[name], below, heavy) for name, below in paths.items()}


def _part(value: Any, below: Paths | None, heavy: list[Any]) -> Any:
    if below is None:
        if isinstance(value, str):
            if len(value) > 64:
                heavy.append(value)
        elif isinstance(value, list):
            heavy.append(value)
        elif isinstance(value, Mapping):
            value = value if type(value) is dict else dict(value)
            heavy.append(value)
        return value
    if not isinstance(value, Mapping):
        if isinstance(value, str | list):
            heavy.append(value)
        return value
    return {key: _part(value[key], deeper, heavy) for key, deeper in below.items() if key in value}


def find_direct(tree: Node) -> tuple[str, tuple[str | int, ...]] | None:
    """The name and keys of an expression that only looks something up; None for every other."""
    keys: list[str | int] = []
    while not isinstance(tree, Identifier):
        match tree:
            case Select(operand, field, False):
                keys.append(field)
                tree = operand
            case Call("_[_]", (operand, Constant(str() | int() as key))) if type(key) is not bool:
                keys.append(key)
                tree = operand
            case _:
                return None
    return tree.name, tuple(reversed(keys))


def look_up(names: Mapping[str, Any], name: str, keys: tuple[str | int, ...]) -> Any:
    """What CEL would find under the keys.

    Raises:
        KeyError: The name has no value.
        LookupError: There is nothing under a key; the message says which.
    """
    value = names[name]
    for place, key in enumerate(keys):
        if isinstance(value, Mapping):
            if key not in value:
                raise LookupError(f"no such key: {key!r}")
            value = value[key]
        elif isinstance(value, list) and isinstance(key, int):
            if not 0 <= key < len(value):
                raise LookupError(f"index {key} is outside a list of {len(value)}")
            value = value[key]
        else:
            path = ".".join(str(part) for part in (name, *keys[:place]))
            raise LookupError(f"there is nothing under {key!r}: {path} is {kind_of(value)}")
    return dict(value) if isinstance(value, Mapping) and type(value) is not dict else value


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
