from __future__ import annotations

import threading
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.errors import ExpressionError
from adapter.graph.expressions import EvaluationFailed, compile_expression
from tests.graph.test_canonical import JSON


def value_of(source: str, **names: Any) -> Any:
    return compile_expression(source).evaluate(names)


@pytest.mark.parametrize(
    ("source", "whole", "broken"),
    [
        ("trigger.amount * 1.5", 300, 300.75),
        ("trigger.amount * 2", 400, 401),
        ("trigger.amount + 1", 201, 201.5),
        ("1 + trigger.amount", 201, 201.5),
        ("trigger.amount - 0.5", 199.5, 200),
        ("0.5 - trigger.amount", -199.5, -200),
        ("trigger.amount / 2", 100, 100.25),
        ("trigger.amount / 2.0", 100, 100.25),
        ("2 / trigger.amount", 0, 2 / 200.5),
        ("-trigger.amount", -200, -200.5),
        ("trigger.amount > 100.5", True, True),
        ("trigger.amount <= 200", True, False),
        ("trigger.amount == 200", True, False),
        ("trigger.amount * 1.5 + 1 >= 301", True, True),
        ("trigger.amount in [200, 200.5]", True, True),
        ("size(trigger.items) * 1.5 > 2.5", True, True),
        ("size(trigger.items) > 1.5 && size(trigger.items) == 2.0", True, True),
        ("double(trigger.amount) > 100", True, True),
        ("1.0 in [1, 2]", True, True),
        ("trigger.items.map(i, i * 1.5)", [15, 30.75], [15, 30.75]),
        ("trigger.items[0]", 10, 10),
        ("trigger.items[trigger.at]", 20.5, 20.5),
        ("trigger.items[trigger.at + 0]", 20.5, 20.5),
    ],
)
def test_numbers_are_json_numbers(source: str, whole: Any, broken: Any) -> None:
    for amount, expected in ((200, whole), (200.5, broken)):
        result = value_of(source, trigger={"amount": amount, "items": [10, 20.5], "at": 1})

        assert result == expected
        assert type(result) is type(expected)


def test_an_integer_divided_by_an_integer_has_no_rest() -> None:
    assert value_of("7 / 2") == 3
    assert value_of("7 / 2.0") == 3.5


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("timestamp('2026-05-04T12:00:00.5+02:00')", "2026-05-04T10:00:00.500000Z"),
        ("duration('90s')", "PT1M30S"),
        ("duration('-1h')", "-PT1H"),
        ("7u", 7),
        ("2.0", 2),
        ("null", None),
        ("{'b': 1, 'a': [duration('1s')]}", {"a": ["PT1S"], "b": 1}),
        ("'a' + 'ü'", "aü"),
    ],
)
def test_results_are_canonical_json(source: str, expected: Any) -> None:
    result = value_of(source)

    assert result == expected
    assert type(result) is type(expected)


def test_the_keys_of_a_resulting_object_are_in_order() -> None:
    assert list(value_of("{'c': 1, 'a': 2, 'b': 3}")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("b'x'", "bytearray is not a JSON type"),
        ("type(1)", "is not a JSON type"),
        ("{1: 2}", "not text"),
        ("0.0 / 0.0", "not finite"),
        ("9007199254740991 + 1", "beyond"),
        ("1 / 0", "divide by zero"),
        ("trigger.none", "no such key: 'none'"),
        ("trigger.none + 1", 'Key not found in map : "none"'),
        ("trigger.items[2]", "index 2 is outside a list of 2"),
        ("trigger.items.none", "nothing under 'none'"),
        ("trigger.name.none", "nothing under 'none'"),
        ("trigger.name > 1", r"> does not work on \(string, int64\)"),
        ("state.x", "state has no value here"),
        ("item + 1", "item has no value here"),
    ],
)
def test_what_fails_says_why(source: str, reason: str) -> None:
    with pytest.raises(EvaluationFailed, match=reason) as caught:
        value_of(source, trigger={"items": [1, 2], "name": "x"})

    assert caught.value.code == "expression_failed"
    assert source in caught.value.message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "syntax"),
        ("1 +", "syntax"),
        ("'a' + 1", "syntax"),
        ("trigger.amount & 1", "syntax"),
        ("'\ud800'", "syntax"),
        ("1\0", "syntax"),
        ("amount > 1", "unknown_name"),
        ("event.x", "unknown_name"),
        ("upper(trigger.x)", "unknown_name"),
        ("trigger.x.upperAscii()", "unknown_name"),
        ("trigger.all(i, v, v > 1)", "unknown_name"),
        ("now()", "unknown_name"),
        ("'" + "a" * 4095 + "'", "too_long"),
        ("google.protobuf.Timestamp{}", "unsupported"),
        ("'a'.matches(trigger.pattern)", "unsupported"),
        ("{'a': 1}.map(k, k)", "unsupported"),
        ("'a'.matches('(')", "invalid_pattern"),
        ("'a'.matches('a{1001}')", "invalid_pattern"),
    ],
)
def test_what_cannot_be_compiled_says_why(source: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source)

    assert caught.value.code == "invalid_expression"
    assert caught.value.details["reason"] == reason


def test_a_refusal_names_line_column_and_name() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression("true &&\n  amount > 1")

    details = caught.value.details
    assert (details["line"], details["column"], details["name"]) == (2, 3, "amount")


def test_of_several_objections_the_one_that_cannot_be_helped_is_told() -> None:
    with pytest.raises(ExpressionError, match=r"> does not work on \(string, int\)"):
        compile_expression("1.5 > 1 && 'a' > 1")


def test_mixed_comparisons_and_loops_go_together() -> None:
    source = (
        "size(trigger.a) > 1.5 ? trigger.a.map(i, i * 2) : trigger.a.filter(i, size([i]) == 1.0)"
    )

    assert value_of(source, trigger={"a": [1, 2.5]}) == [2, 5]
    assert value_of(source, trigger={"a": [7]}) == [7]
    with pytest.raises(EvaluationFailed, match="need a list"):
        value_of(source, trigger={"a": {"k": 1}})


@pytest.mark.parametrize("kind", ["map(k, k)", "filter(k, true)", "map(k, k != 'a', k)"])
def test_map_and_filter_never_go_through_the_keys_of_an_object(kind: str) -> None:
    with pytest.raises(EvaluationFailed, match="need a list"):
        value_of(f"trigger.{kind}", trigger={"a": 1})
    with pytest.raises(EvaluationFailed, match="need a list"):
        value_of(f"[trigger].map(t, t.{kind})", trigger={"a": 1})
    with pytest.raises(EvaluationFailed, match="need a list"):
        value_of(f"{{'x': [trigger.{kind}]}}.x", trigger={"a": 1})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("trigger.all(k, k != 'c')", True),
        ("trigger.exists(k, trigger[k] == 2)", True),
        ("trigger.exists_one(k, k == 'a')", True),
        ("size(trigger)", 2),
        ("'a' in trigger", True),
    ],
)
def test_what_has_one_answer_in_any_order_may_go_through_an_object(
    source: str, expected: Any
) -> None:
    assert value_of(source, trigger={"a": 1, "b": 2}) == expected


@pytest.mark.parametrize(
    ("source", "names", "steps"),
    [
        ("1 + 1", set(), set()),
        ("trigger.a.b + state.c", {"trigger", "state"}, set()),
        ("steps.check.output.ok", {"steps"}, {"check"}),
        ("steps['check-2'].outcome == steps.b.outcome", {"steps"}, {"check-2", "b"}),
        ("has(steps.a.output)", {"steps"}, {"a"}),
        ("steps.exists(s, s == 'a')", {"steps"}, None),
        ("steps[trigger.id].output", {"steps", "trigger"}, None),
        ("trigger.list.all(state, state.x == subject.id)", {"trigger", "subject"}, set()),
        ("trigger.list.map(x, steps.a.output[x])", {"trigger", "steps"}, {"a"}),
        ("[item, instance.id]", {"item", "instance"}, set()),
    ],
)
def test_an_expression_knows_what_it_reads(
    source: str, names: set[str], steps: set[str] | None
) -> None:
    expression = compile_expression(source)

    assert expression.names == names
    assert expression.steps == (None if steps is None else steps)


def test_only_what_is_read_needs_to_be_given() -> None:
    assert value_of("trigger.a > 1", trigger={"a": 2, "huge": object()}) is True


def test_names_may_be_any_mapping() -> None:
    steps = MappingProxyType({"a": {"output": MappingProxyType({"x": 1})}})

    assert compile_expression("steps.a.output.x + 1").evaluate({"steps": steps}) == 2
    assert compile_expression("steps.a.output").evaluate({"steps": steps}) == {"x": 1}
    assert compile_expression("size(steps.a.output)").evaluate({"steps": steps}) == 1


def test_the_event_is_a_name_only_where_it_is_allowed() -> None:
    expression = compile_expression("event.amount > trigger.amount", event=True)

    assert expression.evaluate({"event": {"amount": 2}, "trigger": {"amount": 1}}) is True
    with pytest.raises(ExpressionError):
        compile_expression("event.amount > trigger.amount")


def test_the_same_source_is_compiled_once() -> None:
    assert compile_expression("1 + 2 + 3") is compile_expression("1 + 2 + 3")


@pytest.mark.parametrize(
    "source", ["trigger", "trigger.a", "trigger['a']", "trigger.a[0]", "trigger.a[0].b"]
)
@given(value=JSON)
def test_a_plain_path_gives_what_cel_gives(source: str, value: Any) -> None:
    def attempt(text: str) -> Any:
        try:
            return value_of(text, trigger=value)
        except EvaluationFailed:
            return EvaluationFailed

    assert attempt(source) == attempt(f"true ? {source} : null")


def test_several_threads_may_evaluate_one_expression() -> None:
    expression = compile_expression("trigger.a * 1000 + trigger.b")
    wrong: list[tuple[int, int]] = []

    def work(a: int) -> None:
        for b in range(500):
            if expression.evaluate({"trigger": {"a": a, "b": b}}) != a * 1000 + b:
                wrong.append((a, b))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


TOKENS = st.sampled_from(
    [
        "trigger",
        ".a",
        "['b']",
        "[0]",
        "(",
        ")",
        "+",
        "-",
        "*",
        "/",
        "%",
        ">",
        "==",
        "&&",
        "!",
        "?",
        ":",
        "[",
        "]",
        "{",
        "}",
        ",",
        "'x'",
        "1",
        "2.5",
        "1u",
        "b'a'",
        "size(",
        "has(",
        "in",
        ".map(x,",
        "x",
        ".all(",
        "timestamp(",
        "duration('1h')",
        " ",
        "null",
        ".matches('",
        "')",
        "\x00",
        "�",
        "é",
        "//",
        "type(",
        "string(",
        "state",
        "a.B{}",
        "//",
        "y",
    ]
)


@settings(max_examples=500)
@given(st.lists(TOKENS, max_size=12).map("".join) | st.text(), JSON)
def test_any_text_is_compiled_or_refused_and_any_value_evaluated_or_failed(
    source: str, value: Any
) -> None:
    try:
        expression = compile_expression(source)
    except ExpressionError:
        return
    try:
        expression.evaluate({"trigger": value, "state": {}})
    except EvaluationFailed:
        return
