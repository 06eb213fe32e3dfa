from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import ExpressionError
from adapter.graph.budgets import weigh
from adapter.graph.expressions import MAX_SOURCE, EvaluationFailed, compile_expression
from adapter.graph.patterns import measure_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 0.5
"""Of processor time; five times the budget, because a test machine may be slow and busy."""


def rows(n: int) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"name {i}", "ok": True} for i in range(n)]


def letters(n: int) -> str:
    return "x" * n


HEAVY: dict[str, Callable[[int], dict[str, Any]]] = {
    "trigger.a.all(x, x >= 0)": lambda n: {"a": list(range(n))},
    "trigger.a.all(x, " + " && ".join(["x >= 0"] * 300) + ")": lambda n: {"a": list(range(n))},
    "trigger.a.all(x, x * 1.5 + 1 >= 0)": lambda n: {"a": list(range(n))},
    "trigger.a.map(x, x).map(x, x).map(x, x)": lambda n: {"a": list(range(n))},
    "trigger.a.map(x, {'a': x, 'b': [x, x]})": lambda n: {"a": list(range(n))},
    "trigger.a.filter(x, x.name == trigger.n)": lambda n: {"a": rows(n), "n": "name 3"},
    "trigger.a.map(x, trigger.a.map(y, [x, y]))": lambda n: {"a": list(range(n))},
    "trigger.a.all(x, !(x in trigger.b))": lambda n: {"a": list(range(n)), "b": [-1] * n},
    "trigger.a.all(x, trigger.b == trigger.b)": lambda n: {
        "a": list(range(n)),
        "b": {str(i): i for i in range(n)},
    },
    "trigger.a.all(x, !trigger.b.contains('xxxy'))": lambda n: {
        "a": list(range(n)),
        "b": letters(n),
    },
    "!trigger.b.contains(trigger.c)": lambda n: {"b": letters(n), "c": letters(n // 2) + "y"},
    "trigger.a.all(x, size(trigger.b) > 0)": lambda n: {"a": list(range(n)), "b": letters(n)},
    "trigger.b.matches('(x|z)*x(x|z){60}y')": lambda n: {"b": "xzzxxz" * (n // 6)},
    "trigger.a.exists(x, x.matches('^[A-Z]{2}[0-9]{4}$'))": lambda n: {"a": ["ab1234"] * n},
    "trigger.a.exists(x, x.matches('^.{100}$'))": lambda n: {"a": ["ab1234"] * n},
    "trigger.a" + ".map(x, x + x)" * 6: lambda n: {"a": ["xxxxxxxx"] * n},
    "size([trigger.a]" + ".map(x, x + x)" * 8 + "[0])": lambda n: {"a": letters(n)},
    "trigger.a.all(x, size(trigger.a + trigger.a) > 0)": lambda n: {"a": list(range(n))},
    "size(trigger.a)": lambda n: {"a": rows(n)},
    "[trigger.a]": lambda n: {"a": rows(n)},
    "trigger.a + '!'": lambda n: {"a": letters(n)},
    "trigger.a.map(x, string(x) + 'a')": lambda n: {"a": [1.23456789] * n},
    "trigger.a.all(x, timestamp(x).getFullYear('Europe/Paris') > 0)": lambda n: {
        "a": ["2026-01-01T00:00:00Z"] * n
    },
    "trigger.a.map(x, x.lines.map(y, y.q * 1.5))": lambda n: {
        "a": [{"lines": [{"q": 1}, {"q": 2}]}] * n
    },
    "+".join(["trigger.a"] * 30): lambda n: {"a": letters(n)},
}


@pytest.mark.parametrize("source", HEAVY)
def test_no_evaluation_takes_long_whatever_the_size_of_the_values(source: str) -> None:
    expression = compile_expression(source)
    refused = False
    n = 10
    while not refused and n < 2_000_000:
        names = {"trigger": HEAVY[source](n)}
        began = time.thread_time()
        try:
            expression.evaluate(names)
        except EvaluationFailed as failed:
            refused = "too large" in failed.message
        assert time.thread_time() - began < SECONDS, n
        n = n * 3 // 2 + 1


@pytest.mark.parametrize(
    "source",
    [
        "trigger.a.map(x, trigger.a.map(y, trigger.a.map(z, [x, y, z])))",
        "[1].map(a, [1].map(b, [1].map(c, [1].map(d, d))))",
        "[trigger.a]" + ".map(x, x + x)" * 18,
        "[trigger.a]" + ".map(x, x + x + x + x + x + x + x)" * 12,
        r"trigger.a.exists(x, x.matches('^\\pL{5}$'))",
        "trigger.a.matches('" + "|".join([r"\\pL{100}"] * 8) + "')",
        "trigger.a.matches('((a{30}){30}){1000}')",
    ],
)
def test_what_may_take_long_on_small_values_is_not_compiled(source: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source)

    assert caught.value.details["reason"] == "too_costly"


@pytest.mark.parametrize(
    "source",
    [
        "(" * 40 + "1" + ")" * 40,
        "[" * 40 + "]" * 40,
        "1" + " + 1" * 40,
        "trigger" + ".a" * 40,
        "trigger" + "[0]" * 40,
        "size(" * 40 + "'a'" + ")" * 40,
        "true ? 1 : " * 40 + "1",
        "[" * 2000,
        "(" * 4000,
        "1" + "+1" * 2000,
    ],
)
def test_deep_nesting_is_refused_with_the_limit(source: str) -> None:
    with pytest.raises(ExpressionError, match="32 levels deep"):
        compile_expression(source)


def test_ten_thousand_iterations_are_all_that_one_evaluation_may_have() -> None:
    expression = compile_expression("trigger.all(x, trigger.all(y, x + y >= 0))")

    assert expression.evaluate({"trigger": list(range(99))}) is True
    with pytest.raises(EvaluationFailed, match="more than 10,000 iterations"):
        expression.evaluate({"trigger": list(range(101))})


def test_common_expressions_work_on_thousands_of_values() -> None:
    many = rows(2_000)
    cases = [
        ("trigger.exists(r, r.name == 'name 1999')", True),
        ("trigger.all(r, r.ok && r.id >= 0)", True),
        ("size(trigger.filter(r, r.id * 2 > 1990))", 1004),
        ("trigger.map(r, r.id)[1999]", 1999),
        ("state.wanted in trigger.map(r, r.name)", True),
    ]

    for source, expected in cases:
        names = {"trigger": many, "state": {"wanted": "name 7"}}
        assert compile_expression(source).evaluate(names) == expected


def test_a_value_of_any_size_passes_through_untouched() -> None:
    big = {"rows": rows(100_000)}

    assert compile_expression("trigger").evaluate({"trigger": big}) is big
    assert compile_expression("trigger.rows[7].id").evaluate({"trigger": big}) == 7


def test_a_source_may_have_4096_characters() -> None:
    text = "a" * (MAX_SOURCE - 2)

    assert compile_expression(f"'{text}'").evaluate({}) == text


def test_a_weight_counts_values_keys_and_characters() -> None:
    assert weigh(7) == weigh(None) == 1
    assert weigh("x" * 16) == 2
    assert weigh([1, 2]) == 3
    assert weigh({"": [1]}) == 4


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("a", "ab"),
        ("a{2}", "a{20}"),
        ("(a{5}){2}", "(a{5}){20}"),
        ("(ab|c){3}", "(ab|c){3,9}"),
        ("[ab]{10}", "[^ab]{10}"),
        ("a", r"\pL"),
        ("abc", "(?i)abc"),
    ],
)
def test_a_larger_pattern_measures_larger(smaller: str, larger: str) -> None:
    assert measure_pattern(smaller).compiling < measure_pattern(larger).compiling


@given(st.text(alphabet="()[]{}^$\\pLwd1,?i:ab|*+-.é\n", max_size=40))
def test_any_text_can_be_measured_as_a_pattern(pattern: str) -> None:
    assert measure_pattern(pattern).states >= 0
