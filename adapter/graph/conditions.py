"""Conditions: a declarative tree that can explain itself, with CEL texts for what it cannot say.

    {"all": [...]}   {"any": [...]}   {"not": ...}
    {"field": "trigger.amount", "op": "gt", "value": 100}
    "trigger.amount * 1.2 > state.limit"

A field is a dotted path from one of the names; digits index lists; what is missing is null. A value
may hold ``${ CEL }``. The tree never fails on data: values that cannot be compared give false. CEL
texts may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from adapter.errors import InvalidInput
from adapter.graph.comparisons import OPERATORS, Operator
from adapter.graph.expressions import EvaluationFailed, compile_expression
from adapter.graph.fields import Field, compile_field
from adapter.graph.pointers import pointer_of
from adapter.graph.references import References
from adapter.graph.templates import Template, compile_template

_Names = Mapping[str, Any]
_Test = Callable[[_Names], bool]
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """One compiled condition; immutable.

    Attributes:
        refs: What it reads.
        test: (names) -> bool. Raises EvaluationFailed when a CEL text fails or is not boolean.
        explain: (names) -> a JSON tree of what was compared and what came out; it looks at every
            part, even where ``test`` would stop, and tells a failing part by ``"error"`` with
            ``"result": null``.
    """

    refs: References
    test: Callable[[_Names], bool]
    explain: Callable[[_Names], dict[str, Any]]

    @property
    def names(self) -> frozenset[str]:
        """The top-level names that it uses."""
        return self.refs.names

    @property
    def steps(self) -> frozenset[str] | None:
        """The ids of the steps that it reads; None when that cannot be told, so all."""
        return self.refs.steps


def compile_condition(value: Any, *, event: bool = False) -> Condition:
    """Compiles a condition.

    Args:
        value: The JSON of the condition.
        event: Whether the name ``event`` may be used (conditions of a ``wait``).

    Raises:
        InvalidInput: Not a condition; an ExpressionError where a CEL text is at fault.
            ``details["pointer"]`` names the first place inside the value that is wrong.
    """
    return _compile(value, (), event)


def _compile(value: Any, path: _Path, event: bool) -> Condition:
    if isinstance(value, str):
        return _compile_cel(value, path, event)
    if not isinstance(value, dict):
        raise _wrong(path, "a condition is an object or a CEL text")
    if "field" in value or "op" in value:
        return _compile_leaf(value, path, event)
    if len(value) == 1:
        (key, inner) = next(iter(value.items()))
        if key == "not":
            return _negate(_compile(inner, (*path, key), event))
        if key in ("all", "any"):
            if not isinstance(inner, list) or not inner:
                raise _wrong((*path, key), f"{key!r} takes a list of at least one condition")
            parts = [_compile(part, (*path, key, i), event) for i, part in enumerate(inner)]
            return _combine(key, parts)
    raise _wrong(
        path, "a condition has exactly one of 'all', 'any', 'not', or 'field' with 'op' and 'value'"
    )


def _compile_cel(source: str, path: _Path, event: bool) -> Condition:
    if source.lstrip().startswith("${"):
        raise _wrong(path, "CEL stands in a condition as it is, without ${ and }")
    try:
        expression = compile_expression(source, event=event)
    except InvalidInput as error:
        raise _placed(error, path) from None
    if expression.kind not in ("BOOL", "DYN"):
        raise _wrong(
            path, f"the expression gives {expression.kind}, a condition needs true or false"
        )

    def test(names: _Names) -> bool:
        result = expression.evaluate(names)
        if result is True or result is False:
            return bool(result)
        raise EvaluationFailed(f"the result is not true or false: {source}")

    def explain(names: _Names) -> dict[str, Any]:
        try:
            return {"cel": source, "result": test(names)}
        except EvaluationFailed as failed:
            return {"cel": source, "result": None, "error": failed.message}

    return Condition(expression.refs, test, explain)


def _compile_leaf(value: dict[str, Any], path: _Path, event: bool) -> Condition:
    for key in value:
        if key not in ("field", "op", "value"):
            raise _wrong(
                (*path, key), f"unknown field {key!r}; a comparison has field, op and value"
            )
    try:
        field = compile_field(value.get("field"), event=event)
    except InvalidInput as error:
        raise _placed(error, (*path, "field")) from None
    name, operator = _operator(value, path)
    try:
        template = compile_template(value.get("value", True), event=event)
    except InvalidInput as error:
        raise _placed(error, (*path, "value")) from None
    if template.constant:
        test = _against_constant(field, operator, template.render({}), path)
    elif operator.takes_template:
        test = _against_template(field, operator, template)
    else:
        raise _wrong((*path, "value"), f"op {name!r} needs a constant value")
    refs = References.union((field.refs, template.refs))
    return Condition(refs, test, _explain_leaf(field, name, template, test))


def _operator(value: dict[str, Any], path: _Path) -> tuple[str, Operator]:
    name = value.get("op")
    operator = OPERATORS.get(name) if isinstance(name, str) else None
    if operator is None:
        raise _wrong((*path, "op"), f"unknown op {name!r:.40}; known: {', '.join(OPERATORS)}")
    if "value" not in value and not operator.value_optional:
        raise _wrong(path, f"op {name!r} needs a 'value'")
    return str(name), operator


def _against_constant(field: Field, operator: Operator, value: Any, path: _Path) -> _Test:
    read = field.read
    try:
        holds = operator.compile(value)
    except ValueError as error:
        raise _wrong((*path, "value"), str(error)) from None
    return lambda names: holds(read(names))


def _against_template(field: Field, operator: Operator, template: Template) -> _Test:
    def test(names: _Names) -> bool:
        try:
            holds = operator.compile(template.render(names))
        except ValueError as error:
            raise EvaluationFailed(f"{error}: the condition on {field.path}") from None
        return holds(field.read(names))

    return test


def _explain_leaf(
    field: Field, op: str, template: Template, test: _Test
) -> Callable[[_Names], dict[str, Any]]:
    def explain(names: _Names) -> dict[str, Any]:
        told = {"field": field.path, "op": op, "actual": field.read(names)}
        try:
            return {**told, "value": template.render(names), "result": test(names)}
        except EvaluationFailed as failed:
            return {**told, "result": None, "error": failed.message}

    return explain


def _negate(inner: Condition) -> Condition:
    def explain(names: _Names) -> dict[str, Any]:
        told = inner.explain(names)
        result = told["result"]
        return {"not": told, "result": None if result is None else not result}

    return Condition(inner.refs, lambda names: not inner.test(names), explain)


def _combine(key: str, parts: list[Condition]) -> Condition:
    tests = tuple(part.test for part in parts)
    decisive = key == "any"

    def test(names: _Names) -> bool:
        for holds in tests:
            if holds(names) is decisive:
                return decisive
        return not decisive

    def explain(names: _Names) -> dict[str, Any]:
        told = [part.explain(names) for part in parts]
        result: bool | None = not decisive
        for one in told:
            if one["result"] is not result:
                result = one["result"]
                break
        return {key: told, "result": result}

    return Condition(References.union(part.refs for part in parts), test, explain)


def _wrong(path: _Path, problem: str) -> InvalidInput:
    return InvalidInput(f"Not a condition: {problem}.", pointer=pointer_of(path))


def _placed(error: InvalidInput, path: _Path) -> InvalidInput:
    details = dict(error.details)
    details["pointer"] = pointer_of(path) + str(details.get("pointer", ""))
    return type(error)(error.message, code=error.code, **details)
