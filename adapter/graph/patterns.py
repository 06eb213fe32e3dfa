r"""The size of a regular expression, without compiling it: what it costs to compile and to run.

RE2 runs in time linear in the text, but the factor is the number of states, and counted repetition
multiplies them: ``(\d{50}){50}`` has 2,500.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<unicode>\\[pP](?:\{\^?\w+\}|\w))
    |(?P<escape>\\.)
    |(?P<class>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])
    |(?P<open>\((?:\?[^):]*:?)?)
    |(?P<close>\))
    |(?P<count>\{(?P<low>\d+)(?P<comma>,(?P<high>\d*))?\})
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_UNICODE: Final = 125_000.0
_NEGATED: Final = 300.0
_FOLDED: Final = 6
"""Compile times in units of 10 ns, measured: RE2 spells out the UTF-8 ranges of a class, and all of
those of letters take 1.2 ms. Folding case turns each letter into a class."""

_REACH: Final = 1e12


@dataclass(frozen=True, slots=True)
class PatternSize:
    """Upper bounds: states of the automaton, and units of 10 ns that compiling it takes."""

    states: float
    compiling: float


def measure_pattern(pattern: str) -> PatternSize:
    """Bounds the size of a pattern; for text that is no pattern the figures mean nothing."""
    stack = [[0.0, 0.0]]
    last = (0.0, 0.0)
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup if token["count"] is None else "count":
            case "open":
                stack.append([0.0, 0.0])
                continue
            case "close":
                inner = stack.pop() if len(stack) > 1 else [0.0, 0.0]
                last = (inner[0] + 1, inner[1] + 30)
            case "count":
                times = max(int(token["high"] or 0), int(token["low"]) + (token["comma"] == ","), 1)
                last, extra = _times(last, times), _times(last, times - 1)
                _add(stack[-1], extra)
                continue
            case kind:
                last = (4.0, _compiling(kind, token[0]))
        _add(stack[-1], last)
    states = min(sum(level[0] for level in stack), _REACH)
    compiling = sum(level[1] for level in stack)
    if "(?" in pattern and "i" in pattern:
        compiling *= _FOLDED
    return PatternSize(states, min(compiling, _REACH))


def _compiling(kind: str | None, text: str) -> float:
    if kind == "unicode" or "\\p" in text or "\\P" in text:
        return _UNICODE
    if kind == "class":
        plain = text.isascii() and "\\" not in text and "^" not in text
        return 60.0 if plain else _NEGATED
    if kind == "escape":
        return _NEGATED if text[1:].isupper() else 100.0
    if text == ".":
        return _NEGATED
    return 30.0 if text.isascii() else 60.0


def _times(size: tuple[float, float], times: int) -> tuple[float, float]:
    return size[0] * times, size[1] * times


def _add(level: list[float], size: tuple[float, float]) -> None:
    level[0] += size[0]
    level[1] += size[1]
