from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import ExpressionError
from adapter.graph.expressions import EvaluationFailed
from adapter.graph.templates import compile_template
from tests.graph.test_canonical import JSON

NAMES = {"trigger": {"who": "Ann", "amount": 200, "list": [1, "x"], "none": None}}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("${ trigger.amount }", 200),
        ("${trigger.amount}", 200),
        ("${ trigger.list }", [1, "x"]),
        ("${ trigger.none }", None),
        (" ${ trigger.amount }", " 200"),
        ("Hi ${ trigger.who }!", "Hi Ann!"),
        ("${ trigger.who }${ trigger.amount }", "Ann200"),
        ("<${ trigger.none }>", "<>"),
        ("<${ true }>", "<true>"),
        ("<${ trigger.amount * 1.25 + 0.5 }>", "<250.5>"),
        ("<${ {'b': trigger.list, 'a': 'ü'} }>", '<{"a":"ü","b":[1,"x"]}>'),
        ("$${ trigger.who }", "${ trigger.who }"),
        ("a $${b} ${ 1 } $${", "a ${b} 1 ${"),
        ("$ { } $1", "$ { } $1"),
        ("${ '}' + \"}\" }", "}}"),
        ("${ '\\'}' }", "'}"),
        ("${ r'\\d}' }", "\\d}"),
        ("${ '''it's }''' }", "it's }"),
        ("${ {'a': {'b': 1}}.a.b }", 1),
        ({"a": ["${ trigger.amount }", 5], "b": {"c": "x"}}, {"a": [200, 5], "b": {"c": "x"}}),
        ({"${ trigger.who }": 1}, {"${ trigger.who }": 1}),
        ([None, True, 1.5], [None, True, 1.5]),
    ],
)
def test_templates_render(template: Any, expected: Any) -> None:
    rendered = compile_template(template).render(NAMES)

    assert rendered == expected
    assert type(rendered) is type(expected)


def test_a_constant_template_is_its_own_value() -> None:
    value = {"a": [1, {"b": "text"}]}

    template = compile_template(value)

    assert template.constant
    assert template.render({}) is value
    assert template.names == template.steps == frozenset()


def test_rendering_leaves_the_template_as_it_was() -> None:
    value = {"a": ["${ trigger.amount }"], "b": {"c": 1}}
    template = compile_template(value)

    rendered = template.render(NAMES)

    assert value == {"a": ["${ trigger.amount }"], "b": {"c": 1}}
    assert rendered is not value
    assert rendered["b"] is value["b"]
    assert template.render({"trigger": {"amount": 1}}) == {"a": [1], "b": {"c": 1}}


def test_a_template_knows_what_it_reads_and_where() -> None:
    template = compile_template({"a": "${ steps.x.output }", "b": ["${ state.n } ${ steps.y }"]})

    assert template.names == {"steps", "state"}
    assert template.steps == frozenset({"x", "y"})
    assert [(pointer, e.source) for pointer, e in template.expressions] == [
        ("/a", "steps.x.output"),
        ("/b/0", "state.n"),
        ("/b/0", "steps.y"),
    ]


@pytest.mark.parametrize(
    ("template", "pointer"),
    [
        ("${ 1 + }", ""),
        ({"a": [1, "${ nope }"]}, "/a/1"),
        ({"a/b": "${ 'x"}, "/a~1b"),
        ("${", ""),
        ("${ {1: 2 }", ""),
        ("${}", ""),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_its_place(template: Any, pointer: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(template)

    assert caught.value.details["pointer"] == pointer


def test_a_failing_expression_fails_the_template() -> None:
    with pytest.raises(EvaluationFailed, match="no such key"):
        compile_template({"a": "x ${ trigger.nope }"}).render(NAMES)


@given(JSON)
def test_a_value_without_expressions_renders_to_itself(value: Any) -> None:
    def escaped(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: escaped(item) for key, item in part.items()}
        if isinstance(part, list):
            return list(map(escaped, part))
        return part.replace("${", "$${") if isinstance(part, str) else part

    assert compile_template(escaped(value)).render({}) == value


@given(st.text(alphabet="${}'\"rR\\ab.1+ ", max_size=30))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        template = compile_template(text)
    except ExpressionError:
        return
    try:
        template.render(NAMES)
    except EvaluationFailed:
        return


def test_what_one_rendering_makes_is_bounded_and_what_it_passes_on_is_not() -> None:
    large = "x" * 250_000
    passed_on = compile_template(["${ trigger }"] * 1_000).render({"trigger": large})
    assert passed_on == [large] * 1_000
    for makes in ("${ trigger }" * 1_000, ["is ${ trigger }"] * 1_000, ["${ trigger + 'x' }"] * 99):
        with pytest.raises(EvaluationFailed, match="makes more than 16 MB"):
            compile_template(makes).render({"trigger": large})
