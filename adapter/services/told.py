"""Explanations of conditions in sentences: what was compared, and what the value was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from adapter.graph.expressions import compile_expression
from adapter.graph.kinds import kind_of
from adapter.graph.reading import Paths, find_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 80
"""Characters of a value that are told."""

MOST_VALUES: Final = 4
"""Values of a CEL text that are told."""


def lines_of(explanation: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a sentence for each comparison that decided the result.

    Args:
        explanation: From ``Condition.explain``.
        names: What it was explained with: CEL texts do not tell the values that they read.
    """
    return tuple(_lines(explanation, names, ""))


def value_of(value: Any) -> str:
    """Returns a value as the end of ``it is ...``."""
    if value is None:
        return "missing or null"
    if isinstance(value, str):
        return f"the text {_short(repr(value))}"
    text = _short(json.dumps(value, ensure_ascii=False))
    return f"{kind_of(value)}: {text}" if isinstance(value, list | dict) else text


def _lines(told: Mapping[str, Any], names: Mapping[str, Any], negation: str) -> Iterator[str]:
    if "not" in told:
        yield from _lines(told["not"], names, "" if negation else "not ")
        return
    for key in ("all", "any"):
        if key in told:
            for part in _decisive(key, told):
                yield from _lines(part, names, negation)
            return
    failed = f"; it failed: {told['error']}" if "error" in told else ""
    if "cel" in told:
        read = "; ".join(_values(told["cel"], names))
        result = "" if failed else f" is {json.dumps(told['result'])}"
        yield f"{negation}{told['cel']}{result}{': ' if read else ''}{read}{failed}"
        return
    value = json.dumps(told.get("value", True), ensure_ascii=False)
    what = f"{negation}{told['field']} {told['op']} {_short(value)}"
    yield f"{what}: it is {value_of(told['actual'])}{failed}"


def _decisive(key: str, told: Mapping[str, Any]) -> list[Any]:
    """The parts that made the result: of an ``all`` that does not hold, those that do not."""
    parts, result = list(told[key]), told["result"]
    if result is (key == "all"):
        # It took all of them.
        return parts
    return [part for part in parts if part["result"] is result]


def _values(source: str, names: Mapping[str, Any]) -> Iterator[str]:
    paths = list(_flat(find_paths(compile_expression(source).tree), ()))
    for path in paths[:MOST_VALUES]:
        value: Any = names
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        yield f"{'.'.join(path)} is {value_of(value)}"
    if len(paths) > MOST_VALUES:
        yield f"and {len(paths) - MOST_VALUES} more"


def _flat(paths: Paths, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, below in paths.items():
        if below is None:
            yield (*above, key)
        else:
            yield from _flat(below, (*above, key))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
