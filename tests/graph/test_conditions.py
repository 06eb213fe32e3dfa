from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import ExpressionError, InvalidInput
from adapter.graph.comparisons import OPERATORS, same
from adapter.graph.conditions import compile_condition
from adapter.graph.expressions import EvaluationFailed
from tests.graph.test_canonical import JSON


def holds(op: str, actual: Any, value: Any) -> bool:
    condition = compile_condition({"field": "trigger.x", "op": op, "value": value})
    return condition.test({"trigger": {"x": actual}})


@pytest.mark.parametrize(
    ("op", "actual", "value", "expected"),
    [
        ("eq", 200, 200, True),
        ("eq", 200.5, 200.5, True),
        ("eq", "a", "a", True),
        ("eq", None, None, True),
        ("eq", 1, True, False),
        ("eq", True, 1, False),
        ("eq", False, 0, False),
        ("eq", 0, False, False),
        ("eq", "1", 1, False),
        ("eq", [1, {"a": True}], [1, {"a": True}], True),
        ("eq", [1, {"a": 1}], [1, {"a": True}], False),
        ("ne", 1, True, True),
        ("ne", "a", "a", False),
        ("lt", 1, 1.5, True),
        ("lt", "a", "b", True),
        ("lt", "a", 1, False),
        ("lt", None, 1, False),
        ("lt", False, 1, False),
        ("lt", [1], [2], False),
        ("le", 2, 2, True),
        ("gt", 200, 100.5, True),
        ("gt", 200.5, 200, True),
        ("ge", 2, 2, True),
        ("ge", 1, 2, False),
        ("in", "a", ["a", "b"], True),
        ("in", "c", ["a", "b"], False),
        ("in", 1, ["a", 1, None], True),
        ("in", True, [1], False),
        ("in", None, ["a", None], True),
        ("in", [1], [[1]], True),
        ("in", [1], ["a"], False),
        ("not_in", "c", ["a"], True),
        ("not_in", "a", ["a"], False),
        ("not_in", {"a": 1}, ["a"], True),
        ("contains", "abc", "b", True),
        ("contains", ["a", 1], 1, True),
        ("contains", ["a", True], 1, False),
        ("contains", {"k": 0}, "k", True),
        ("contains", 5, 5, False),
        ("contains", None, "a", False),
        ("starts_with", "abc", "ab", True),
        ("starts_with", 5, "5", False),
        ("ends_with", "abc", "bc", True),
        ("ends_with", None, "", False),
        ("exists", 0, True, True),
        ("exists", None, True, False),
        ("exists", None, False, True),
        ("exists", False, False, False),
        ("matches", "ORDER-12", "^[A-Z]+-[0-9]{2}$", True),
        ("matches", "xORDERx", "ORDER", True),
        ("matches", "order", "ORDER", False),
        ("matches", 'a"\\\n', '^a"\\\\\n$', True),
        ("matches", 12, "1", False),
    ],
)
def test_operators(op: str, actual: Any, value: Any, expected: bool) -> None:
    assert holds(op, actual, value) is expected


def test_a_value_may_be_a_template() -> None:
    names = {"trigger": {"x": 5, "limit": 4, "words": ["a", "b"], "word": "b"}}

    def leaf(field: str, op: str, value: Any) -> bool:
        return compile_condition({"field": field, "op": op, "value": value}).test(names)

    assert leaf("trigger.x", "gt", "${ trigger.limit }")
    assert leaf("trigger.word", "in", "${ trigger.words }")
    assert leaf("trigger.word", "in", ["x", "${ trigger.word }"])
    with pytest.raises(EvaluationFailed, match="need a list"):
        leaf("trigger.word", "in", "${ trigger.word }")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("trigger", {"a": {"b": {"c": {"d": 7}}}, "list": [{"x": 1}, 2], "text": "abc"}),
        ("trigger.a.b.c.d", 7),
        ("trigger.a.b.c", {"d": 7}),
        ("trigger.a.b", {"c": {"d": 7}}),
        ("trigger.list.0.x", 1),
        ("trigger.list.1", 2),
        ("trigger.list.2", None),
        ("trigger.list.-1", None),
        ("trigger.list.x", None),
        ("trigger.list.99999999999999999999", None),
        ("trigger.text.0", None),
        ("trigger.nope.nope", None),
        ("trigger.a.b.c.d.e", None),
        ("steps.one.output", None),
        ("item.x", None),
    ],
)
def test_what_is_missing_is_null(field: str, expected: Any) -> None:
    names = {"trigger": {"a": {"b": {"c": {"d": 7}}}, "list": [{"x": 1}, 2], "text": "abc"}}
    condition = compile_condition({"field": field, "op": "exists"})

    assert condition.explain(names)["actual"] == expected
    assert condition.test(names) is (expected is not None)


def test_conditions_combine() -> None:
    def of(part: Any) -> bool:
        return compile_condition(part).test({"trigger": {"a": 1, "b": 2}})

    yes = {"field": "trigger.a", "op": "eq", "value": 1}
    no = "trigger.b == 1"
    assert of({"all": [yes, {"not": no}]})
    assert not of({"all": [yes, no]})
    assert of({"any": [no, yes]})
    assert not of({"any": [no, {"not": yes}]})
    assert of({"not": {"all": [yes, no]}})


def test_what_decides_ends_the_test() -> None:
    fails = "1 / 0 == 1"
    yes = "true"

    assert compile_condition({"any": [yes, fails]}).test({})
    assert not compile_condition({"all": [{"not": yes}, fails]}).test({})
    with pytest.raises(EvaluationFailed, match="divide by zero"):
        compile_condition({"any": [fails, yes]}).test({})


def test_a_text_that_gives_no_truth_fails() -> None:
    condition = compile_condition("trigger.flag")

    assert condition.test({"trigger": {"flag": True}})
    with pytest.raises(EvaluationFailed, match="not true or false"):
        condition.test({"trigger": {"flag": 1}})


def test_a_condition_explains_why_not() -> None:
    condition = compile_condition(
        {
            "any": [
                {
                    "all": [
                        {"field": "trigger.amount", "op": "gt", "value": 100},
                        {"field": "trigger.country", "op": "in", "value": ["AT"]},
                    ]
                },
                {"not": "trigger.urgent == false"},
                "trigger.nope == 1",
            ]
        }
    )
    names = {"trigger": {"amount": 200, "country": "FR", "urgent": False}}

    told = condition.explain(names)

    error = told["any"][2].pop("error")
    assert "no such key" in error or "not found" in error
    assert told == {
        "any": [
            {
                "all": [
                    {
                        "field": "trigger.amount",
                        "op": "gt",
                        "value": 100,
                        "actual": 200,
                        "result": True,
                    },
                    {
                        "field": "trigger.country",
                        "op": "in",
                        "value": ["AT"],
                        "actual": "FR",
                        "result": False,
                    },
                ],
                "result": False,
            },
            {"not": {"cel": "trigger.urgent == false", "result": True}, "result": False},
            {"cel": "trigger.nope == 1", "result": None},
        ],
        "result": None,
    }


def test_a_condition_knows_what_it_reads() -> None:
    condition = compile_condition(
        {
            "all": [
                {"field": "steps.a.output.x", "op": "eq", "value": "${ state.x }"},
                {"not": "steps['b'].outcome == 'success'"},
            ]
        }
    )

    assert condition.names == {"steps", "state"}
    assert condition.steps == frozenset({"a", "b"})
    assert compile_condition({"field": "steps", "op": "exists"}).steps is None


def test_the_event_is_read_where_it_is_allowed() -> None:
    leaf = {"field": "event.amount", "op": "ge", "value": "${ event.least }"}
    condition = compile_condition({"all": [leaf, "event.ok"]}, event=True)

    assert condition.test({"event": {"amount": 2, "least": 1, "ok": True}})
    with pytest.raises(InvalidInput, match="'event'"):
        compile_condition(leaf)


@pytest.mark.parametrize(
    ("condition", "pointer"),
    [
        (None, ""),
        (5, ""),
        ([], ""),
        ({}, ""),
        ({"all": []}, "/all"),
        ({"all": {}}, "/all"),
        ({"all": ["true"], "any": ["true"]}, ""),
        ({"none": ["true"]}, ""),
        ({"not": {"any": ["true", 7]}}, "/not/any/1"),
        ({"field": "trigger.x"}, "/op"),
        ({"field": "trigger.x", "op": "eq"}, ""),
        ({"field": "trigger.x", "op": "equals", "value": 1}, "/op"),
        ({"field": "trigger.x", "op": ["eq"], "value": 1}, "/op"),
        ({"field": "trigger.x", "op": "eq", "value": 1, "not": 1}, "/not"),
        ({"field": "", "op": "exists"}, "/field"),
        ({"field": "trigger..x", "op": "exists"}, "/field"),
        ({"field": "payload.x", "op": "exists"}, "/field"),
        ({"field": 5, "op": "exists"}, "/field"),
        ({"op": "exists"}, "/field"),
        ({"field": "trigger.x", "op": "in", "value": "abc"}, "/value"),
        ({"field": "trigger.x", "op": "starts_with", "value": 1}, "/value"),
        ({"field": "trigger.x", "op": "exists", "value": 1}, "/value"),
        ({"field": "trigger.x", "op": "exists", "value": "${ true }"}, "/value"),
        ({"field": "trigger.x", "op": "matches", "value": "("}, "/value"),
        ({"field": "trigger.x", "op": "eq", "value": ["${ nope }"]}, "/value/0"),
        ("size('a') + 1", ""),
        ("'text'", ""),
        ("${ trigger.x }", ""),
        ({"all": ["nope > 1"]}, "/all/0"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(condition: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_condition(condition)

    assert caught.value.details["pointer"] == pointer


def test_a_text_at_fault_is_an_expression_error() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_condition({"not": "1 +"})

    assert caught.value.code == "invalid_expression"


OPS = st.sampled_from([op for op, row in OPERATORS.items() if row.takes_template])


@given(OPS, JSON, JSON)
def test_a_comparison_never_fails_on_data(op: str, actual: Any, value: Any) -> None:
    leaf = {"field": "trigger.x", "op": op, "value": value}
    try:
        condition = compile_condition(leaf)
    except InvalidInput:
        return
    names = {"trigger": {"x": actual}}

    assert condition.test(names) in (True, False)
    assert condition.explain(names)["result"] is condition.test(names)


@given(JSON, JSON)
def test_equality_is_that_of_json(left: Any, right: Any) -> None:
    assert same(left, left)
    assert same(left, right) is same(right, left)
    assert holds("eq", left, left if not _has_template(left) else 1) or _has_template(left)


def _has_template(value: Any) -> bool:
    return "${" in str(value)
