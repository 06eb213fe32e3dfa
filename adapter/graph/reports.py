"""The CEL library's reports as sentences, for refusals at publish and failures at run time."""

from __future__ import annotations

import re
from typing import Any, Final

from adapter.errors import ExpressionError
from adapter.graph.budgets import MAX_ITERATIONS
from adapter.graph.ordering import REFUSED_OVERLOAD

UNORDERED: Final = (
    "map and filter need a list: the keys of an object have no order "
    "(all, exists and exists_one work)"
)

_OBJECTION = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_STATUS = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$")
_NUMBER = r"(?:int|uint|double)"
_NUMBERS_COMPARED = re.compile(
    r"found no matching overload for '(?:_[<>]=?_|_[=!]=_|@in)' applied to "
    rf"'\({_NUMBER}, (?:{_NUMBER}|list\({_NUMBER}\))\)'"
)
_OVERLOAD = re.compile(r"found no matching overload for '_?@?([^']+?)_?' applied to '\((.*)\)'")
_NO_OVERLOAD = re.compile(r"No matching overloads found : _?@?(.+?)_?\((.*)\)")


def only_compares_numbers(report: str) -> bool:
    """Whether the type check objects to nothing but an integer being compared with a fraction."""
    objections = [text for _, _, text in _OBJECTION.findall(report)]
    return bool(objections) and all(map(_NUMBERS_COMPARED.match, objections))


def failure(report: str) -> str:
    """What went wrong at run time, as the end of a sentence."""
    if REFUSED_OVERLOAD in report:
        return UNORDERED
    if "Iteration budget exceeded" in report:
        return f"it needs more than {MAX_ITERATIONS:,} iterations"
    if overload := _NO_OVERLOAD.search(report):
        return f"{overload[1]} does not work on ({overload[2]})"
    return _STATUS.sub("", _STATUS.sub("", report)).strip().rstrip(".")


def refusal(source: str, report: str) -> ExpressionError:
    """Why an expression cannot be compiled; with line and column where they are known."""
    objections = list(_OBJECTION.finditer(report))
    others = [found for found in objections if not _NUMBERS_COMPARED.match(found[3])]
    found = next(iter(others or objections), None)
    if found is None:
        text = _TOO_DEEP if "recursion" in report else failure(report)
        return ExpressionError(f"The expression cannot be compiled: {text}.", reason="syntax")
    line, column, text = int(found[1]), int(found[2]), found[3]
    details: dict[str, Any] = {"reason": "syntax"}
    where = ""
    if line > 0:
        details |= {"line": line, "column": column}
        where = f"line {line}, column {column}: "
    if name := re.match(r"undeclared reference to '([^']*)'", text):
        called = re.search(rf"\b{re.escape(name[1])}\s*\(", source)
        details |= {"reason": "unknown_name", "name": name[1].split(".")[0]}
        text = f"{name[1].split('.')[0]!r} is not a known {'function' if called else 'name'}"
    elif overload := _OVERLOAD.match(text):
        text = f"{overload[1]} does not work on ({overload[2]})"
    elif "max recursion depth" in text:
        text = _TOO_DEEP
    else:
        text = text.partition(" expecting ")[0]
    return ExpressionError(f"The expression cannot be compiled: {where}{text}.", **details)


_TOO_DEEP: Final = "it is nested more than 32 levels deep"
