"""The operators of declarative conditions: total on JSON values, compiled against a fixed value.

Equality is JSON's: ``1`` is not ``true``, ``1`` is not ``"1"``. Order exists between two numbers
and between two texts (by code point); everything else compares as false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from adapter.graph.expressions import compile_pattern

Holds = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        compile: (value of the condition) -> (value of the field) -> bool. Raises ValueError
            when the operator cannot work with that value at all.
        value_optional: The condition may leave its value out; it is then true.
        takes_template: The value may hold ``${ CEL }``.
    """

    compile: Callable[[Any], Holds]
    value_optional: bool = False
    takes_template: bool = True


def same(left: Any, right: Any) -> bool:
    """JSON equality of two canonical values."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _equals(value: Any) -> Holds:
    if value is None or isinstance(value, bool):
        return lambda actual: actual is value
    if isinstance(value, str):
        return lambda actual: actual == value
    if isinstance(value, int | float):
        return lambda actual: actual == value and actual is not True and actual is not False
    return lambda actual: same(actual, value)


def _differs(value: Any) -> Holds:
    equals = _equals(value)
    return lambda actual: not equals(actual)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any], Holds]:
    def compile_order(value: Any) -> Holds:
        if isinstance(value, str):
            return lambda actual: type(actual) is str and compare(actual, value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return lambda actual: (
                (type(actual) is int or type(actual) is float) and compare(actual, value)
            )
        return lambda _actual: False

    return compile_order


def _is_in(value: Any) -> Holds:
    if not isinstance(value, list):
        raise ValueError("'in' and 'not_in' need a list")
    if all(isinstance(item, str) for item in value):
        texts = frozenset(value)
        return lambda actual: type(actual) is str and actual in texts
    members = [_equals(item) for item in value]
    return lambda actual: any(equals(actual) for equals in members)


def _is_not_in(value: Any) -> Holds:
    is_in = _is_in(value)
    return lambda actual: not is_in(actual)


def _contains(value: Any) -> Holds:
    equals = _equals(value)

    def holds(actual: Any) -> bool:
        if isinstance(actual, list):
            return any(map(equals, actual))
        return isinstance(value, str) and isinstance(actual, str | dict) and value in actual

    return holds


def _starts_with(value: Any) -> Holds:
    text = _text(value, "starts_with")
    return lambda actual: type(actual) is str and actual.startswith(text)


def _ends_with(value: Any) -> Holds:
    text = _text(value, "ends_with")
    return lambda actual: type(actual) is str and actual.endswith(text)


def _exists(value: Any) -> Holds:
    if value is True:
        return lambda actual: actual is not None
    if value is False:
        return lambda actual: actual is None
    raise ValueError("'exists' needs true or false")


def _matches(value: Any) -> Holds:
    found = compile_pattern(_text(value, "matches"))
    return lambda actual: type(actual) is str and found(actual)


def _text(value: Any, op: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{op!r} needs a text")
    return value


OPERATORS: Final[Mapping[str, Operator]] = MappingProxyType(
    {
        "eq": Operator(_equals),
        "ne": Operator(_differs),
        "lt": Operator(_ordered(lambda a, b: a < b)),
        "le": Operator(_ordered(lambda a, b: a <= b)),
        "gt": Operator(_ordered(lambda a, b: a > b)),
        "ge": Operator(_ordered(lambda a, b: a >= b)),
        "in": Operator(_is_in),
        "not_in": Operator(_is_not_in),
        "contains": Operator(_contains),
        "starts_with": Operator(_starts_with),
        "ends_with": Operator(_ends_with),
        "exists": Operator(_exists, value_optional=True, takes_template=False),
        "matches": Operator(_matches, takes_template=False),
    }
)
