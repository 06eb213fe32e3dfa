"""CEL expressions over JSON values: the only module that knows the CEL library.

The language is CEL (cel-spec) as ``cel-expr-python`` runs it, and one thing more: numbers are JSON
numbers, so ``+ - * /`` and comparisons may mix integers and fractions, and a whole fraction may be an
index. Division of two integers is CEL's: ``7 / 2`` is ``3``, ``7 / 2.0`` is ``3.5``.

Evaluation holds the interpreter lock and cannot be interrupted, so its cost is bounded beforehand:
see ``adapter.graph.budgets``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel

from adapter.errors import ExpressionError, InvalidValue
from adapter.graph import syntax
from adapter.graph.canonical import canonical
from adapter.graph.durations import format_duration, format_time
from adapter.graph.reading import Paths, find_paths, project, references_of
from adapter.graph.references import EVENT, NAMES, References

MAX_SOURCE: Final = 4096

_T = cel.Type
_ERROR = cel.Type.ERROR
_NOISE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_STATUS = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$")


class EvaluationFailed(Exception):  # noqa: N818 - the domain's word
    """An expression met values that it cannot work on.

    A plain value of the interpreter, not an error of the caller: it becomes the step's
    ``error_code`` and ``error_message``.

    Attributes:
        code: Always ``expression_failed``.
        message: What went wrong, with the expression.
    """

    code = "expression_failed"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Expression:
    """One compiled expression; immutable, and safe to evaluate from several threads.

    Attributes:
        source: The text it was compiled from.
        refs: What it reads.
        kind: The static type of the result as CEL names it (``BOOL``, ``INT``, ...; ``DYN`` if open).
    """

    __slots__ = ("_eval", "_paths", "kind", "refs", "source")

    def __init__(self, source: str, compiled: cel.Expression, tree: syntax.Node) -> None:
        self.source = source
        self.kind = compiled.return_type().name()
        self._paths: Paths = find_paths(tree)
        self.refs: References = references_of(self._paths)
        self._eval = compiled.eval

    @property
    def names(self) -> frozenset[str]:
        """The top-level names that it uses."""
        return self.refs.names

    @property
    def steps(self) -> frozenset[str] | None:
        """The ids of the steps that it reads; None when that cannot be told, so all."""
        return self.refs.steps

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """Returns the result as a canonical JSON value.

        Timestamps become RFC 3339 text in UTC, durations ISO 8601 text.

        Args:
            names: Canonical JSON values; only what the expression reads is bound.

        Raises:
            EvaluationFailed: CEL reports an error (no such key, division by zero, ...), or the result
                is no JSON value.
        """
        try:
            value = self._eval(data=project(names, self._paths))
            plain = value.plain_value()
        except KeyError as error:
            raise EvaluationFailed(f"{error.args[0]!s} has no value here: {self.source}") from None
        except RuntimeError as error:
            raise EvaluationFailed(f"{_clean(str(error))}: {self.source}") from None
        kind = type(plain)
        if kind is bool or plain is None:
            return plain
        if kind is str and value.type() == _ERROR:
            raise EvaluationFailed(f"{_clean(plain)}: {self.source}")
        try:
            return canonical(_json(plain))
        except InvalidValue as error:
            raise EvaluationFailed(f"the result is no JSON value. {error.message}") from None

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


@lru_cache(maxsize=4096)
def compile_expression(source: str, *, event: bool = False) -> Expression:
    """Compiles one CEL expression; the same source gives the same object.

    Args:
        source: At most 4,096 characters.
        event: Whether the name ``event`` may be used.

    Raises:
        ExpressionError: ``details`` has ``reason`` (``too_long``, ``syntax``, ``unknown_name``,
            ``unsupported``, ``too_costly``) and, where known, ``line`` and ``column``.
    """
    if len(source) > MAX_SOURCE:
        raise ExpressionError(
            f"The expression has {len(source):,} characters; {MAX_SOURCE:,} are allowed.",
            reason="too_long",
        )
    try:
        compiled = _environment(event).compile(source)
        tree = syntax.read_tree(compiled.serialize())
    except (RuntimeError, UnicodeError, ValueError) as error:
        raise _refusal(source, str(error)) from None
    return Expression(source, compiled, tree)


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A test whether an RE2 pattern occurs anywhere in a text, with CEL's own ``matches``.

    Linear in the text whatever the pattern, which Python's ``re`` is not.

    Raises:
        ValueError: Not a pattern, or one that is too long or too large.
    """
    literal = json.dumps(pattern, ensure_ascii=False)
    try:
        expression = compile_expression(f"{EVENT}.matches({literal})", event=True)
        expression.evaluate({EVENT: ""})
    except (ExpressionError, EvaluationFailed) as error:
        raise ValueError(f"not a pattern that can be used. {error.message}") from None
    return lambda text: bool(expression.evaluate({EVENT: text}))


@lru_cache(maxsize=2)
def _environment(event: bool) -> cel.Env:
    names = (*NAMES, EVENT) if event else NAMES
    return cel.NewEnv(
        variables=dict.fromkeys(names, _T.DYN), extensions=[cel.CelExtension("json_numbers", _mixed())]
    )


def _mixed() -> list[cel.FunctionDecl]:
    """Arithmetic between an integer and a fraction, which CEL itself leaves undefined."""
    operators: dict[str, tuple[str, Callable[[float, float], float]]] = {
        "_+_": ("add", lambda a, b: a + b),
        "_-_": ("subtract", lambda a, b: a - b),
        "_*_": ("multiply", lambda a, b: a * b),
        "_/_": ("divide", _divide),
    }
    return [
        cel.FunctionDecl(
            operator,
            [
                cel.Overload(
                    f"json_{word}_{left.name().lower()}_{right.name().lower()}",
                    return_type=_T.DOUBLE,
                    parameters=[left, right],
                    is_member=False,
                    impl=_on_floats(function),
                )
                for left, right in ((_T.INT, _T.DOUBLE), (_T.DOUBLE, _T.INT))
            ],
        )
        for operator, (word, function) in operators.items()
    ]


def _on_floats(function: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: function(float(a), float(b))


def _divide(dividend: float, divisor: float) -> float:
    """Division of IEEE 754: by zero it is infinite or not a number, as CEL's own for doubles."""
    if divisor:
        return dividend / divisor
    if not dividend or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def _json(plain: Any) -> Any:
    """A CEL result as JSON; what has no JSON form is left for ``canonical`` to refuse."""
    kind = type(plain)
    if kind is dict:
        return {key: _json(plain[key]) for key in sorted(plain, key=str)}
    if kind is list:
        return [_json(item) for item in plain]
    if kind is datetime:
        return format_time(plain)
    if kind is timedelta:
        return format_duration(plain)
    return plain


def _clean(message: str) -> str:
    return _STATUS.sub("", _STATUS.sub("", message)).strip()


def _refusal(source: str, raw: str) -> ExpressionError:
    """The library's report as one sentence with a reason, a line and a column."""
    found = _NOISE.search(raw)
    if found is None:
        deep = "recursion" in raw
        message = "it is nested more than 32 levels deep" if deep else _clean(raw)
        return ExpressionError(f"The expression cannot be compiled: {message}.", reason="syntax")
    line, column, text = int(found[1]), int(found[2]), found[3]
    details: dict[str, Any] = {"line": line, "column": column} if line > 0 else {}
    name = re.match(r"undeclared reference to '([^']*)'", text)
    if "max recursion depth" in text:
        reason, text = "syntax", "it is nested more than 32 levels deep"
    elif name:
        called = re.search(rf"\b{re.escape(name[1])}\s*\(", source)
        kind = "function" if called else "name"
        reason, text = "unknown_name", f"{name[1]!r} is not a known {kind}"
        details["name"] = name[1]
    else:
        reason = "syntax"
    where = f"line {line}, column {column}: " if line > 0 else ""
    return ExpressionError(
        f"The expression cannot be compiled: {where}{text}.", reason=reason, **details
    )
