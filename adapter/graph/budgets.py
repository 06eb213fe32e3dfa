"""How much work an expression may do: bounded before it runs, because it cannot be stopped.

An evaluation holds the interpreter lock. The CEL library bounds nesting (32) and iterations (10,000
in all), but not what an iteration costs: 10,000 iterations of ``x in big_list`` take half a minute,
and eighteen ``.map(x, x + x)`` make 260 MB of one kilobyte. So the worst case is estimated from the
syntax tree and the sizes of the values, in the manner of the cost estimators of other CEL
implementations, and an evaluation above the budget of about 100 ms is refused instead of begun.

The unit is about 10 ns. The prices are measured worst cases of this library: building a list of n
by ``map`` copies n²/2 elements, arithmetic between an integer and a fraction goes through Python, a
pattern is compiled each time, equality of objects is dear. A value's *weight* is the number of
values in it plus a sixteenth of its characters; sizes are only ever over-estimated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from adapter.graph.patterns import measure_pattern
from adapter.graph.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
    children,
)

BUDGET: Final = 10_000_000
MAX_LOOPS_NESTED: Final = 3
MAX_ITERATIONS: Final = 10_000
UNMETERED: Final = 50.0
"""Values of this weight in all are too light to be counted."""

LEAST_WEIGHT: Final = 100.0
"""An expression must fit the budget at least for values of this weight, or it is not compiled."""

_LADDER: Final = (3e5, 1e5, 3e4, 1e4, 3e3, 1e3, 300.0, LEAST_WEIGHT)
BIND: Final = 30.0
_RETURN: Final = 60.0
_MIXED: Final = 400.0


class Scope(dict[str, Any]):
    """The names of a decision's expressions, with the meter that all of its evaluations share.

    One evaluation is bounded by ``BUDGET``; the meter bounds their sum, because a decision holds
    the event loop of its worker for as long as it lasts.
    """

    __slots__ = ("meter",)

    def __init__(self, names: Mapping[str, Any], meter: Meter) -> None:
        super().__init__(names)
        self.meter = meter


@dataclass(slots=True)
class Meter:
    """Work done so far, and the most that may be done, in the units of ``BUDGET``."""

    most: float
    spent: float = 0.0

    def spend(self, work: float) -> None:
        """Counts work that is about to begin.

        Raises:
            RuntimeError: It would be more than is allowed.
        """
        if self.spent + work > self.most:
            raise RuntimeError("the expressions evaluated together are too much work for one go")
        self.spent += work


@dataclass(frozen=True, slots=True)
class Size:
    """An upper bound of a value: its direct elements or entries, and its whole weight."""

    count: float
    weight: float


SizeOf = Callable[[tuple[str, ...]], Size]
"""The size of what stands under a path of names and keys."""

_SCALAR: Final = Size(0, 1)


def weigh(value: Any) -> float:
    """The weight of a JSON value: 1 for each value and key in it, and 1/16 for each character."""
    count = characters = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        count += 1
        kind = type(part)
        if kind is str:
            characters += len(part)
        elif kind is dict:
            count += len(part)
            characters += sum(map(len, part))
            waiting += part.values()
        elif kind is list:
            waiting += part
    return count + characters / 16


def size_of(value: Any) -> Size:
    """The exact size of a JSON value."""
    return Size(len(value) if isinstance(value, dict | list) else 0, weigh(value))


def allowance(tree: Node) -> float:
    """The largest weight of values, all together, that surely fits the budget; 0 if none does.

    Above it ``cost`` must be asked with the true sizes.
    """

    def fits(weight: float) -> bool:
        size = Size(weight, weight)
        return cost(tree, lambda _path: size) + BIND * weight <= BUDGET

    if not fits(LEAST_WEIGHT):
        return 0
    return _LADDER[bisect_left(_LADDER, True, key=fits)]


def cost(tree: Node, size: SizeOf) -> float:
    """The worst-case work of one evaluation, in units of about 10 ns."""
    work, result = _Estimator(size).of(tree, {})
    return work + _RETURN * result.weight


def loops_nested(node: Node) -> int:
    """How deep comprehensions stand inside the bodies of others."""
    if isinstance(node, Comprehension):
        body = max(map(loops_nested, (node.initial, node.condition, node.step, node.result)))
        return max(1 + body, loops_nested(node.source))
    return max(map(loops_nested, children(node)), default=0)


class _Estimator:
    def __init__(self, size: SizeOf) -> None:
        self._size = size

    def of(self, node: Node, bound: dict[str, Size]) -> tuple[float, Size]:
        """(work, size of the result) of a node; ``bound`` are the variables of comprehensions."""
        match node:
            case Constant():
                return 1, _constant_size(node.value)
            case Identifier():
                return 3, bound[node.name] if node.name in bound else self._size((node.name,))
            case Select():
                return self._select(node, bound)
            case Call():
                return self._call(node, bound)
            case ListLiteral():
                work, sizes = self._all(node.elements, bound)
                return work + 3 * len(sizes), _container(sizes)
            case MapLiteral():
                work, sizes = self._all(children(node), bound)
                return work + 30 * len(sizes), _container(sizes)
            case Comprehension():
                return self._comprehension(node, bound)

    def _all(self, nodes: tuple[Node, ...], bound: dict[str, Size]) -> tuple[float, list[Size]]:
        works, sizes = (
            zip(*(self.of(node, bound) for node in nodes), strict=True) if nodes else ((), ())
        )
        return sum(works), list(sizes)

    def _select(self, node: Select, bound: dict[str, Size]) -> tuple[float, Size]:
        path = _path(node, bound)
        if path is not None:
            return 6.0 * len(path), _SCALAR if node.test else self._size(path)
        work, size = self.of(node.operand, bound)
        return work + 6, _SCALAR if node.test else _part(size)

    def _call(  # noqa: C901 - a price list
        self, node: Call, bound: dict[str, Size]
    ) -> tuple[float, Size]:
        work, sizes = self._all(node.arguments, bound)
        weights = [size.weight for size in sizes]
        match node.function, sizes:
            case "_[_]", [container, _]:
                return work + 6, _part(container)
            case "_+_", [left, right]:
                total = Size(left.count + right.count, left.weight + right.weight)
                return work + _MIXED + 4 * total.weight, total
            case (("_-_" | "_*_" | "_/_"), _):
                return work + _MIXED, _SCALAR
            case (("_==_" | "_!=_"), _):
                return work + 5 + 10 * _compared(node, weights), _SCALAR
            case "@in", [_, container]:
                each = weights[0] - 1 if isinstance(node.arguments[0], Constant) else 0
                compared = container.count * each if each else container.weight
                return work + 5 + 2 * container.count + 10 * compared, _SCALAR
            case "_?_:_", [_, yes, no]:
                return work + 2, Size(max(yes.count, no.count), max(yes.weight, no.weight))
            case "size", [value]:
                return work + 5 + 3 * value.weight, _SCALAR
            case "contains", [text, part]:
                return work + 5 + 10 * text.weight + 0.7 * text.weight * part.weight, _SCALAR
            case "matches", [text, _]:
                return work + self._matching(node, text), _SCALAR
            case (("string" | "bytes"), [value]):
                return work + 20 + 3 * value.weight, Size(0, value.weight + 3)
        if node.function in _CHEAP:
            return work + 6, _SCALAR
        return work + 150 + 10 * sum(weights), Size(sum(s.count for s in sizes), sum(weights) + 3)

    def _matching(self, node: Call, text: Size) -> float:
        pattern = node.arguments[-1]
        source = pattern.value if isinstance(pattern, Constant) else None
        if not isinstance(source, str):
            return float("inf")
        measured = measure_pattern(source)
        return 350 + measured.compiling + 32 * text.weight * (1 + measured.states)

    def _comprehension(self, node: Comprehension, bound: dict[str, Size]) -> tuple[float, Size]:
        """Work grows at least linearly in an element, so that one heavy element is the worst split.

        For n elements of total weight w, each of weight 1 at least: n times the body at weight 1,
        and once what the body costs more at weight w.
        """
        before, (source, initial) = self._all((node.source, node.initial), bound)
        independent = not _mentions(node.source, bound)
        count = min(source.count, MAX_ITERATIONS) if independent else source.count
        builds = isinstance(node.initial, ListLiteral)
        start = Size(0, 0) if builds else initial

        def body(weight: float) -> tuple[float, Size]:
            element = Size(weight, weight)
            inner = bound | {
                node.variable: element,
                node.second_variable: element,
                node.accumulator: start,
            }
            work, sizes = self._all((node.condition, node.step), inner)
            return work + 13, sizes[1]

        light, light_size = body(1)
        heavy, heavy_size = body(max(source.weight, 1))
        work = before + count * light + (heavy - light)
        if not builds:
            return work, Size(max(initial.count, heavy_size.count), heavy_size.weight)
        built = 1 + count * light_size.weight + (heavy_size.weight - light_size.weight)
        own_append = count * _MIXED  # `accumulator + [element]` was priced like arithmetic
        copied = 1.5 * count * count + 4 * source.count
        return work - own_append + copied, Size(count, built)


_CHEAP: Final = frozenset(
    {"_&&_", "_||_", "!_", "-_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "startsWith", "endsWith"}
    | {"@not_strictly_false"}
)


def _constant_size(value: Any) -> Size:
    return Size(0, 1 + len(value) / 16) if isinstance(value, str | bytes) else _SCALAR


def _container(sizes: list[Size]) -> Size:
    return Size(len(sizes), 1 + sum(size.weight for size in sizes))


def _part(size: Size) -> Size:
    return Size(size.weight, size.weight)


def _compared(node: Call, weights: list[float]) -> float:
    """Equality stops at the smaller side; but only a literal is sure to be small each time."""
    for argument, weight in zip(node.arguments, weights, strict=True):
        if isinstance(argument, Constant):
            return weight
    return sum(weights)


def _mentions(node: Node, bound: dict[str, Size]) -> bool:
    if isinstance(node, Identifier):
        return node.name in bound
    return any(_mentions(child, bound) for child in children(node))


def _path(node: Node, bound: dict[str, Size]) -> tuple[str, ...] | None:
    keys: list[str] = []
    while isinstance(node, Select):
        keys.append(node.field)
        node = node.operand
    if isinstance(node, Identifier) and node.name not in bound:
        return (node.name, *reversed(keys))
    return None
