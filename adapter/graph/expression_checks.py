"""Findings about expressions: in templates, conditions and fields, each at its own place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.errors import ExpressionError, InvalidInput
from adapter.graph.conditions import compile_condition
from adapter.graph.expressions import compile_expression
from adapter.graph.findings import Finding, find
from adapter.graph.syntax import Call, Constant, Node, walk
from adapter.graph.templates import Source, split_text

if TYPE_CHECKING:
    from adapter.graph.expressions import Expression
    from adapter.graph.references import References

Path = tuple[str | int, ...]

_CODES = {
    "too_long": "expression_too_costly",
    "too_costly": "expression_too_costly",
    "unknown_name": "unknown_name",
    "unsupported": "expression_not_supported",
}


class ExpressionChecks:
    """Compiles the expressions of one document and collects findings and references.

    Attributes:
        findings: What was wrong.
        read: (place, what is read there) of every expression and field that could be compiled.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.read: list[tuple[Path, References]] = []

    def template(self, value: Any, path: Path, *, event: bool = False) -> None:
        """Looks at every text in a JSON value."""
        if isinstance(value, str):
            self._text(value, path, event)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.template(item, (*path, key), event=event)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self.template(item, (*path, index), event=event)

    def condition(self, value: Any, path: Path, *, event: bool = False) -> None:
        """Looks at every part of a condition."""
        if isinstance(value, dict) and len(value) == 1:
            ((key, inner),) = value.items()
            if key == "not":
                self.condition(inner, (*path, key), event=event)
                return
            if key in ("all", "any") and isinstance(inner, list) and inner:
                for index, part in enumerate(inner):
                    self.condition(part, (*path, key, index), event=event)
                return
        self._comparison(value, path, event)

    def _comparison(self, value: Any, path: Path, event: bool) -> None:
        try:
            condition = compile_condition(value, event=event)
        except InvalidInput as error:
            inside = str(error.details.get("pointer", ""))
            place = (*path, *(part for part in inside.split("/")[1:] if part))
            self._refused(error, place, "invalid_condition")
            return
        self.read.append((path, condition.refs))
        if isinstance(value, str):
            self._look(compile_expression(value, event=event), path)

    def _text(self, text: str, path: Path, event: bool) -> None:
        if "${" not in text:
            return
        try:
            pieces = split_text(text)
        except ExpressionError as error:
            self._refused(error, path, "invalid_expression")
            return
        for piece in pieces:
            if isinstance(piece, Source):
                try:
                    expression = compile_expression(str(piece), event=event)
                except ExpressionError as error:
                    self._refused(error, path, "invalid_expression")
                else:
                    self.read.append((path, expression.refs))
                    self._look(expression, path)

    def _refused(self, error: InvalidInput, path: Path, otherwise: str) -> None:
        reason = str(error.details.get("reason", ""))
        if isinstance(error, ExpressionError):
            otherwise = "invalid_expression"
        self.findings.append(find(_CODES.get(reason, otherwise), path, error.message.rstrip(".")))

    def _look(self, expression: Expression, path: Path) -> None:
        if any(map(_divides_by_integer, walk(expression.tree))):
            message = f"{expression.source!r:.200} divides by an integer"
            self.findings.append(find("integer_division", path, message))


def _divides_by_integer(node: Node) -> bool:
    match node:
        case Call("_/_", (dividend, Constant(int() as divisor))):
            return not isinstance(divisor, bool) and not isinstance(dividend, Constant)
    return False
