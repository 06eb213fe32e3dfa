from __future__ import annotations

import math
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import InvalidValue
from adapter.graph.canonical import canonical, canonical_bytes, checksum, problems

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2.0**52), 2.0**52)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def test_what_is_canonical_already_comes_back_as_the_same_object() -> None:
    value = {"a": [1, 2.5, None, True, {"b": "ü"}], "c": {}}

    assert canonical(value) is value


def test_only_what_changes_is_copied() -> None:
    kept = {"x": 1}
    value = {"kept": kept, "changed": [1.0, 2]}

    made = canonical(value)

    assert made == {"kept": {"x": 1}, "changed": [1, 2]}
    assert made["kept"] is kept
    assert value["changed"] == [1.0, 2]
    assert type(made["changed"][0]) is int


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        (2.0, 2),
        (-0.0, 0),
        ((1, (2,)), [1, [2]]),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (OrderedDict(b=1), {"b": 1}),
        ({Colour.RED: 1.0}, {"red": 1}),
        (2.0**52, 2**52),
    ],
)
def test_other_forms_of_the_same_value_become_one(given_value: Any, expected: Any) -> None:
    made = canonical(given_value)

    assert made == expected
    assert type(made) is type(expected)
    assert math.copysign(1, made) == 1 if made == 0 else True


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (math.nan, ""),
        ({"a": [0, math.inf]}, "/a/1"),
        ({"a/b": {"~": 2**53}}, "/a~1b/~0"),
        ([-(2**53)], "/0"),
        ([1e300], "/0"),
        ({"a": "x\0"}, "/a"),
        ({"a": {"x\0": 1}}, "/a"),
        (["\ud800"], "/0"),
        ({"\udfff": 1}, ""),
        ({1: 2}, ""),
        ({"a": {None: 2}}, "/a"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "/at"),
        ([Decimal(1)], "/0"),
        ([b"x"], "/0"),
        ([{1}], "/0"),
        ([object()], "/0"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(value: Any, pointer: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        canonical(value)

    assert caught.value.code == "invalid_value"
    assert caught.value.details["pointer"] == pointer


def test_sixty_four_levels_are_kept_and_one_more_is_not() -> None:
    deepest: Any = []
    for _ in range(63):
        deepest = [deepest]

    assert canonical(deepest) is deepest
    with pytest.raises(InvalidValue, match="64 levels"):
        canonical([deepest])


def test_no_nesting_exhausts_the_stack() -> None:
    value: Any = {}
    for _ in range(100_000):
        value = {"a": value}

    with pytest.raises(InvalidValue, match="64 levels"):
        canonical(value)
    while value:  # taken apart by hand: the interpreter would recurse
        value = value.pop("a")


def test_every_problem_is_told_with_its_path() -> None:
    value = {"a": math.nan, "b": [1, "\0"], "c": 1}

    assert [path for path, _ in problems(value)] == [("a",), ("b", 1)]


@given(JSON)
def test_canonical_is_stable_and_equal(value: Any) -> None:
    made = canonical(value)

    assert made == value
    assert canonical(made) is made
    assert list(problems(made)) == []


@given(JSON)
def test_the_bytes_do_not_depend_on_order_or_form(value: Any) -> None:
    def turned(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: turned(part[key]) for key in reversed(part)}
        if isinstance(part, list):
            return tuple(map(turned, part))
        return float(part) if type(part) is int and abs(part) < 2**52 else part

    assert canonical_bytes(turned(value)) == canonical_bytes(value)


def test_bytes_and_checksum_are_those_of_rfc_8785() -> None:
    value = {"b": [1.0, 1e-7, "é"], "a": None}

    assert canonical_bytes(value) == b'{"a":null,"b":[1,1e-7,"\xc3\xa9"]}'
    assert checksum({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
