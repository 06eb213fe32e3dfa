"""Templates: JSON values with CEL in their texts.

A text that is exactly one ``${ CEL }`` becomes the expression's value, of any type. In every other
text each ``${ CEL }`` is replaced by its value as text: text as it is, null as nothing, the rest as
compact JSON with sorted keys. ``$${`` stands for a literal ``${``. Keys are never templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from adapter.errors import ExpressionError
from adapter.graph.budgets import weigh
from adapter.graph.expressions import EvaluationFailed, Expression, compile_expression
from adapter.graph.pointers import pointer_of
from adapter.graph.references import NOTHING, References

MAX_MADE: Final = 16 * 1024 * 1024
"""Characters and values that one rendering may make: far above any limit, far below any memory."""

_Names = Mapping[str, Any]


class _Made:
    """Counts what one rendering makes; what it only passes on costs nothing."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: float = MAX_MADE

    def count(self, value: Any) -> None:
        """Adds a value that was made.

        Raises:
            EvaluationFailed: All together has become too much.
        """
        self._left -= len(value) if type(value) is str else weigh(value)
        if self._left < 0:
            raise EvaluationFailed(
                f"the template makes more than {MAX_MADE // 1024 // 1024} MB with its values put in"
            )


_Render = Callable[[_Names, _Made], Any]


class Template:
    """One compiled template; immutable.

    Attributes:
        refs: What its expressions read.
        constant: True when it holds no expression; ``render`` then gives the same object each time.
        expressions: (JSON pointer inside the template, expression), in document order.
    """

    __slots__ = ("_render", "constant", "expressions", "refs")

    def __init__(self, render: _Render, expressions: tuple[tuple[str, Expression], ...]) -> None:
        self._render = render
        self.expressions = expressions
        self.constant = not expressions
        self.refs = References.union(e.refs for _, e in expressions) if expressions else NOTHING

    @property
    def names(self) -> frozenset[str]:
        """The top-level names that it uses."""
        return self.refs.names

    @property
    def steps(self) -> frozenset[str] | None:
        """The ids of the steps that it reads; None when that cannot be told, so all."""
        return self.refs.steps

    def render(self, names: _Names) -> Any:
        """The value with every expression replaced, canonical if the template was.

        Raises:
            EvaluationFailed: An expression failed, or the texts and values that were made are more
                than ``MAX_MADE`` together.
        """
        return self._render(names, _Made())


def compile_template(value: Any, *, event: bool = False) -> Template:
    """Compiles a JSON value whose texts may hold ``${ CEL }``.

    Args:
        value: Canonical JSON.
        event: Whether the name ``event`` may be used (conditions of a ``wait``).

    Raises:
        ExpressionError: The first expression that cannot be compiled, or one that is not closed;
            ``details["pointer"]`` names its place inside the value.
    """
    compiler = _Compiler(event)
    render = compiler.compile(value, ())
    return Template(render or _constant(value), tuple(compiler.found))


def result_kind(text: str) -> str | None:
    """The static type of a text that is exactly one expression; None for every other text.

    Raises:
        ExpressionError: The text cannot be compiled.
    """
    pieces = split_text(text)
    if len(pieces) == 1 and isinstance(pieces[0], Source):
        return compile_expression(str(pieces[0])).kind
    return None


class Source(str):
    """The CEL text between ``${`` and ``}``."""

    __slots__ = ()


def split_text(text: str) -> list[str]:
    """Cuts a text into literal pieces and Source pieces; escapes are resolved.

    Raises:
        ExpressionError: A ``${`` that is never closed.
    """
    pieces: list[str] = []
    literal = ""
    at = 0
    while (found := text.find("${", at)) >= 0:
        if found > at and text[found - 1] == "$":
            literal += text[at : found - 1] + "${"
            at = found + 2
            continue
        literal += text[at:found]
        if literal:
            pieces.append(literal)
            literal = ""
        end = _closing_brace(text, found + 2)
        pieces.append(Source(text[found + 2 : end].strip()))
        at = end + 1
    literal += text[at:]
    if literal:
        pieces.append(literal)
    return pieces


def _closing_brace(text: str, start: int) -> int:
    """The index of the brace that ends an expression; those in CEL strings do not count."""
    depth = 0
    at = start
    while at < len(text):
        char = text[at]
        if char in "'\"":
            at = _string_end(text, at)
            continue
        if char == "{":
            depth += 1
        elif char == "}":
            if not depth:
                return at
            depth -= 1
        at += 1
    raise ExpressionError(
        f"An expression that begins with ${{ is never closed: {text[start - 2 : start + 40]!r}.",
        reason="not_closed",
    )


def _string_end(text: str, start: int) -> int:
    """The index after a CEL string that begins at ``start`` (plain, raw or triple-quoted)."""
    quote = text[start] * 3 if text.startswith(text[start] * 3, start) else text[start]
    raw = start > 0 and text[start - 1] in "rR"
    at = start + len(quote)
    while at < len(text):
        if text[at] == "\\" and not raw:
            at += 2
        elif text.startswith(quote, at):
            return at + len(quote)
        else:
            at += 1
    return len(text)


class _Compiler:
    """Compiles one value and collects its expressions on the way."""

    def __init__(self, event: bool) -> None:
        self._event = event
        self.found: list[tuple[str, Expression]] = []

    def compile(self, value: Any, path: tuple[str | int, ...]) -> _Render | None:
        """The renderer of a value; None when it holds no expression and no escape."""
        if isinstance(value, str):
            return self._text(value, pointer_of(path)) if "${" in value else None
        if isinstance(value, dict):
            return self._container(value, value.items(), path)
        if isinstance(value, list):
            return self._container(value, enumerate(value), path)
        return None

    def _container(
        self, value: Any, items: Iterable[tuple[Any, Any]], path: tuple[str | int, ...]
    ) -> _Render | None:
        parts = [
            (key, part)
            for key, item in items
            if (part := self.compile(item, (*path, key))) is not None
        ]
        if not parts:
            return None
        copied = value.copy

        def render(names: _Names, made: _Made) -> Any:
            result = copied()
            for key, part in parts:
                result[key] = part(names, made)
            return result

        return render

    def _text(self, text: str, pointer: str) -> _Render:
        try:
            pieces = [
                compile_expression(str(piece), event=self._event)
                if isinstance(piece, Source)
                else piece
                for piece in split_text(text)
            ]
        except ExpressionError as error:
            raise ExpressionError(error.message, **{**error.details, "pointer": pointer}) from None
        self.found += [(pointer, piece) for piece in pieces if isinstance(piece, Expression)]
        if len(pieces) == 1:
            only = pieces[0]
            return _value(only) if isinstance(only, Expression) else _constant(only)

        def render(names: _Names, made: _Made) -> str:
            texts: list[str] = []
            for piece in pieces:
                if isinstance(piece, Expression):
                    text = as_text(piece.evaluate(names))
                    made.count(text)
                    texts.append(text)
                else:
                    texts.append(piece)
            return "".join(texts)

        return render


def _constant(value: Any) -> _Render:
    return lambda _names, _made: value


def _value(expression: Expression) -> _Render:
    if expression.looks_up:
        return lambda names, _made: expression.evaluate(names)

    def render(names: _Names, made: _Made) -> Any:
        value = expression.evaluate(names)
        if isinstance(value, str | list | dict):
            made.count(value)
        return value

    return render


def as_text(value: Any) -> str:
    """A JSON value as it is put into a text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
