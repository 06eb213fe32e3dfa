"""Keeps ``map`` and ``filter`` from going through the keys of an object, which have no order.

CEL leaves the order of a map's keys open, and the library draws it anew in every process: the same
expression on the same record would give one list today and another tomorrow. ``all``, ``exists``
and ``exists_one`` give the same answer in any order and stay as they are.

What a comprehension goes through is known only when it runs. So the expression is rewritten:
the range ``r`` of each comprehension that builds a list becomes ``r + []``, which is ``r`` for a
list and has no overload for a map. The library takes the rewritten form like any serialised
expression. Field numbers: cel-spec, ``proto/cel/expr/checked.proto`` and ``syntax.proto``.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from adapter.graph.syntax import expression_field
from adapter.graph.wire import as_bytes, read_fields, write_field

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSED_OVERLOAD: Final = "_+_(map, list)"
"""How the library names the missing overload when such a range turns out to be a map."""

_ID, _SELECT, _CALL, _LIST, _MAP, _COMPREHENSION = 2, 5, 6, 7, 8, 9
_RANGE, _INITIAL = 2, 4
_INNER: Final = {
    _SELECT: {1},
    _CALL: {1, 3},
    _LIST: {1},
    _COMPREHENSION: {_RANGE, _INITIAL, 5, 6, 7},
}
_FIRST_ID = 1_000_000


def guard_order(serialized: bytes) -> bytes:
    """A serialised expression with a guard around what its maps and filters go through.

    Raises:
        ValueError: The bytes are not such a message.
    """
    guard = _Guard()
    (kind, type_url, _), (number, value, _) = read_fields(serialized)
    message = [
        write_field(inner, guard.expression(as_bytes(content)))
        if inner == expression_field(as_bytes(type_url))
        else raw
        for inner, content, raw in read_fields(as_bytes(value))
    ]
    return write_field(kind, type_url) + write_field(number, b"".join(message))


class _Guard:
    def __init__(self) -> None:
        self._ids: Iterator[int] = count(_FIRST_ID)

    def expression(self, data: bytes) -> bytes:
        """One ``Expr`` with every list-building comprehension in it guarded."""
        return b"".join(
            write_field(number, self._kind(number, as_bytes(value)))
            if number in _INNER or number == _MAP
            else raw
            for number, value, raw in read_fields(data)
        )

    def _kind(self, kind: int, data: bytes) -> bytes:
        guarded = kind == _COMPREHENSION and _builds_list(data)
        parts = []
        for number, value, raw in read_fields(data):
            if kind == _MAP:
                parts.append(self._entry(as_bytes(value)) if number == 2 else raw)
            elif number in _INNER[kind]:
                inner = self.expression(as_bytes(value))
                if guarded and number == _RANGE:
                    inner = self._as_list(inner)
                parts.append(write_field(number, inner))
            else:
                parts.append(raw)
        return b"".join(parts)

    def _entry(self, data: bytes) -> bytes:
        return write_field(
            2,
            b"".join(
                write_field(number, self.expression(as_bytes(value))) if number in (3, 4) else raw
                for number, value, raw in read_fields(data)
            ),
        )

    def _as_list(self, expression: bytes) -> bytes:
        """``expression + []``."""
        empty = write_field(_ID, next(self._ids)) + write_field(_LIST, b"")
        call = write_field(2, b"_+_") + write_field(3, expression) + write_field(3, empty)
        return write_field(_ID, next(self._ids)) + write_field(_CALL, call)


def _builds_list(comprehension: bytes) -> bool:
    """Whether the accumulator begins as a list, as in ``map`` and ``filter``."""
    return any(
        number == _INITIAL and any(kind == _LIST for kind, _, _ in read_fields(as_bytes(value)))
        for number, value, _ in read_fields(comprehension)
    )
