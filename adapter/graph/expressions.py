"""CEL expressions over JSON values: the only module that knows the CEL library.

The language is CEL (cel-spec) as ``cel-expr-python`` runs it, and one thing more: numbers are JSON
numbers, so ``+ - * /`` and comparisons may mix integers and fractions, and a whole fraction may be
an index. Division of two integers is CEL's: ``7 / 2`` is ``3``, ``7 / 2.0`` is ``3.5``.

Evaluation holds the interpreter lock and cannot be interrupted, so its cost is bounded beforehand:
see ``adapter.graph.budgets``.
"""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from cel_expr_python import cel

from adapter.errors import ExpressionError, InvalidValue
from adapter.graph import syntax
from adapter.graph.admission import admit, patterns_in
from adapter.graph.budgets import BIND, BUDGET, UNMETERED, Meter, Scope, Size, cost, size_of, weigh
from adapter.graph.canonical import canonical
from adapter.graph.durations import format_duration, format_time
from adapter.graph.ordering import guard_order
from adapter.graph.reading import (
    Paths,
    find_direct,
    find_paths,
    look_up,
    project,
    references_of,
)
from adapter.graph.references import EVENT, NAMES, References
from adapter.graph.reports import failure, only_compares_numbers, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_SOURCE: Final = 4096

_T = cel.Type
_ERROR = cel.Type.ERROR


class EvaluationFailed(Exception):
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
        kind: The static type of the result in the library's words (``BOOL``, ``INT``, ...;
            ``DYN`` if open).
        tree: The syntax tree.
    """

    __slots__ = ("_allowance", "_direct", "_eval", "_paths", "kind", "refs", "source", "tree")

    def __init__(
        self, source: str, compiled: cel.Expression, tree: syntax.Node, allowance: float
    ) -> None:
        self.source = source
        self.tree = tree
        self.kind = compiled.return_type().name()
        self._paths: Paths = find_paths(tree)
        self._direct = find_direct(tree)
        self._allowance = allowance
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

    @property
    def looks_up(self) -> bool:
        """Whether it only passes on what it finds, and makes nothing."""
        return self._direct is not None

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """Returns the result as a canonical JSON value.

        Timestamps become RFC 3339 text in UTC, durations ISO 8601 text.

        Args:
            names: Canonical JSON values; only what the expression reads is bound.

        Raises:
            EvaluationFailed: CEL reports an error (no such key, division by zero, ...), the values
                are too large for the budget, or the result is no JSON value.
        """
        try:
            if self._direct is not None:
                return look_up(names, *self._direct)
            return self._run(names)
        except KeyError as error:
            problem = f"{error.args[0]!s} has no value here"
        except LookupError as error:
            problem = str(error)
        except RuntimeError as error:
            problem = failure(str(error))
        except InvalidValue as error:
            problem = f"the result is no JSON value. {error.message}"
        raise EvaluationFailed(f"{problem.rstrip('.')} (in {self.source!r:.200})")

    def _run(self, names: Mapping[str, Any]) -> Any:
        heavy: list[Any] = []
        data = project(names, self._paths, heavy)
        if heavy:
            self._afford(data, heavy, names.meter if isinstance(names, Scope) else None)
        value = self._eval(data=data)
        plain = value.plain_value()
        kind = type(plain)
        if kind is bool or plain is None:
            return plain
        if kind is str and value.type() == _ERROR:
            raise RuntimeError(plain)
        return canonical(_json(plain))

    def _afford(self, data: dict[str, Any], heavy: list[Any], meter: Meter | None) -> None:
        """Refuses to begin what may take too long with these values."""
        weight = sum(map(weigh, heavy))
        if weight <= self._allowance and (meter is None or weight <= UNMETERED):
            return
        work = cost(self.tree, _sizes(data)) + BIND * weight
        if not work <= BUDGET:
            times = work / BUDGET
            raise RuntimeError(
                f"the values are too large: the work may be {times:,.0f} times what is allowed"
            )
        if meter is not None:
            meter.spend(work)

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


def _sizes(data: dict[str, Any]) -> Callable[[tuple[str, ...]], Size]:
    @cache
    def size(path: tuple[str, ...]) -> Size:
        value: Any = data
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return size_of(value)

    return size


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
    environment = _environment(event)
    try:
        source.encode()
        compiled = _compile(environment, source)
        serialized = compiled.serialize()
        tree = syntax.read_tree(serialized)
        if _builds_lists(tree):
            compiled = environment.deserialize(guard_order(serialized))
    except (RuntimeError, UnicodeError, ValueError) as error:
        raise refusal(source, str(error)) from None
    affordable = admit(tree)
    for pattern in patterns_in(tree):
        _try_pattern(pattern)
    return Expression(source, compiled, tree, affordable)


def _builds_lists(tree: syntax.Node) -> bool:
    return any(
        isinstance(node, syntax.Comprehension) and node.builds_list for node in syntax.walk(tree)
    )


def _compile(environment: cel.Env, source: str) -> cel.Expression:
    """Compiles with CEL's type check, which refuses one thing that JSON numbers need.

    The library compares an integer with a fraction, but its check knows no such overload (and takes
    none besides its own), so ``size(items) > 1.5`` is refused. When the check objects to nothing
    else, the expression is compiled without it.
    """
    try:
        return environment.compile(source)
    except RuntimeError as error:
        if only_compares_numbers(str(error)):
            return environment.compile(source, disable_check=True)
        raise


def _try_pattern(pattern: str) -> None:
    """Lets the library compile a pattern, which it otherwise does only when it is used.

    Raises:
        ExpressionError: Not an RE2 pattern.
    """
    literal = json.dumps(pattern, ensure_ascii=False)
    tried = _environment(False).compile(f"''.matches({literal})").eval(data={})
    if tried.type() == _ERROR:
        raise ExpressionError(
            f"Not a pattern: {failure(str(tried.plain_value()))}.", reason="invalid_pattern"
        )


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A test whether an RE2 pattern occurs anywhere in a text, with CEL's own ``matches``.

    Linear in the text whatever the pattern, which Python's ``re`` is not.

    Raises:
        ValueError: Not a pattern, or one that is too long or too large.
    """
    literal = json.dumps(pattern, ensure_ascii=False)
    try:
        expression = compile_expression(f"{EVENT}.matches({literal})", event=True)
    except ExpressionError as error:
        raise ValueError(error.message.rstrip(".")) from None
    return lambda text: bool(expression.evaluate({EVENT: text}))


def evaluate_plain(
    source: str,
    declared: Mapping[str, str],
    values: Mapping[str, Any],
    *,
    json_numbers: bool = False,
    check: bool = True,
    container: str | None = None,
) -> tuple[str, Any]:
    """Evaluates once with any typed variables and none of this project's rules, for conformance.

    Args:
        source: A CEL expression.
        declared: CEL types by variable, such as ``map<string, int>``.
        values: Python values by variable.
        json_numbers: With the mixed arithmetic of this project, or CEL as its specification has it.
        check: With the type check.
        container: The namespace in which names are looked up first.

    Returns:
        The name of the result's type and the result as Python value.

    Raises:
        ExpressionError: It cannot be compiled.
        EvaluationFailed: CEL reports an error.
    """
    environment = cel.NewEnv(
        variables={name: _T(kind) for name, kind in declared.items()},
        extensions=[cel.CelExtension("json_numbers", _mixed())] if json_numbers else [],
        container=container,
    )
    try:
        compiled = environment.compile(source, disable_check=not check)
    except RuntimeError as error:
        raise refusal(source, str(error)) from None
    try:
        value = compiled.eval(data=values)
    except RuntimeError as error:
        raise EvaluationFailed(failure(str(error))) from None
    if value.type() == _ERROR:
        raise EvaluationFailed(failure(str(value.plain_value())))
    return value.type().name(), value.plain_value()


@lru_cache(maxsize=2)
def _environment(event: bool) -> cel.Env:
    names = (*NAMES, EVENT) if event else NAMES
    return cel.NewEnv(
        variables=dict.fromkeys(names, _T.DYN),
        extensions=[cel.CelExtension("json_numbers", _mixed())],
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
                    return_type=_T.DYN,
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
