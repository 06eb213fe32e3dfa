"""The syntax tree of a checked CEL expression, read from its serialised form.

The CEL library gives no tree, but serialises one: ``google.protobuf.Any`` around
``cel.expr.CheckedExpr``. The few message fields that matter are read here by number (wire format:
protobuf.dev/programming-guides/encoding; messages: cel-spec, ``proto/cel/expr/syntax.proto``), so
that no generated code and no protobuf library is needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adapter.graph.wire import as_bytes, read_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: ``value`` is None, bool, int, float, str or bytes."""

    value: Any


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name, of a variable or bound by a comprehension."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``; with ``test`` it is ``has(operand.field)``."""

    operand: Node
    field: str
    test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function, operator (``_+_``) or method call; a method's target is the first argument."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """``[a, b]``."""

    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """``{k: v}``; ``message`` is set when it constructs a protobuf message instead."""

    entries: tuple[tuple[Node, Node], ...]
    message: str


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What ``all``, ``exists``, ``exists_one``, ``map`` and ``filter`` expand to."""

    variable: str
    second_variable: str
    source: Node
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node

    @property
    def builds_list(self) -> bool:
        """Whether it is a ``map`` or ``filter``: its result has the order of its source."""
        return isinstance(self.initial, ListLiteral)


Node = Constant | Identifier | Select | Call | ListLiteral | MapLiteral | Comprehension


def read_tree(serialized: bytes) -> Node:
    """The tree of one serialised, checked expression.

    Raises:
        ValueError: The bytes are not such a message.
    """
    (_, type_url, _), (_, message, _) = read_fields(serialized)
    fields = dict(_fields(as_bytes(message)))
    return _node(fields[expression_field(as_bytes(type_url))])


def expression_field(type_url: bytes) -> int:
    """The number of the field that holds the ``Expr`` in the message of that type.

    Raises:
        ValueError: The type is neither ``cel.expr.CheckedExpr`` nor ``cel.expr.ParsedExpr``.
    """
    match type_url.rpartition(b"/")[2]:
        case b"cel.expr.CheckedExpr":
            return 4
        case b"cel.expr.ParsedExpr":
            return 2
    raise ValueError(f"unexpected message {type_url.decode(errors='replace')}")


def children(node: Node) -> tuple[Node, ...]:
    """The direct parts of a node, in the order of the source where that is kept."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.arguments
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return tuple(part for entry in node.entries for part in entry)
        case Comprehension():
            return (node.source, node.initial, node.condition, node.step, node.result)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Yields the node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def _node(data: bytes) -> Node:
    for number, value in _fields(data):
        if number in _READERS:
            return _READERS[number](value)
    return Constant(None)


def _constant(data: bytes) -> Constant:
    for number, value in _fields(data):
        match number:
            case 1:
                return Constant(None)
            case 2:
                return Constant(bool(value))
            case 3:
                return Constant(value - (1 << 64) if value >> 63 else value)
            case 4:
                return Constant(value)
            case 5:
                return Constant(struct.unpack("<d", value)[0])
            case 6:
                return Constant(value.decode())
            case 7:
                return Constant(value)
    return Constant(None)


def _identifier(data: bytes) -> Identifier:
    return Identifier(_text(dict(_fields(data)), 1))


def _select(data: bytes) -> Select:
    parts = dict(_fields(data))
    return Select(_node(parts.get(1, b"")), _text(parts, 2), bool(parts.get(3, 0)))


def _call(data: bytes) -> Call:
    target: tuple[Node, ...] = ()
    function = ""
    arguments = []
    for number, value in _fields(data):
        if number == 1:
            target = (_node(value),)
        elif number == 2:
            function = value.decode()
        elif number == 3:
            arguments.append(_node(value))
    return Call(function, (*target, *arguments))


def _list(data: bytes) -> ListLiteral:
    return ListLiteral(tuple(_node(value) for number, value in _fields(data) if number == 1))


def _map(data: bytes) -> MapLiteral:
    entries = []
    message = ""
    for number, value in _fields(data):
        if number == 1:
            message = value.decode()
        elif number == 2:
            entry = dict(_fields(value))
            key = _node(entry[3]) if 3 in entry else Constant(_text(entry, 2))
            entries.append((key, _node(entry.get(4, b""))))
    return MapLiteral(tuple(entries), message)


def _comprehension(data: bytes) -> Comprehension:
    parts = dict(_fields(data))
    return Comprehension(
        variable=_text(parts, 1),
        second_variable=_text(parts, 8),
        source=_node(parts.get(2, b"")),
        accumulator=_text(parts, 3),
        initial=_node(parts.get(4, b"")),
        condition=_node(parts.get(5, b"")),
        step=_node(parts.get(6, b"")),
        result=_node(parts.get(7, b"")),
    )


_READERS: Final[dict[int, Callable[[bytes], Node]]] = {
    3: _constant,
    4: _identifier,
    5: _select,
    6: _call,
    7: _list,
    8: _map,
    9: _comprehension,
}


def _text(parts: dict[int, Any], number: int) -> str:
    value = parts.get(number, b"")
    return bytes(value).decode()


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    for number, value, _ in read_fields(data):
        yield number, value
