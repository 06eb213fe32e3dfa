"""Bounds what a template may make of its values.

Values are kept within bounds at the door, but a template can put them together: into one another,
visit after visit, or beside each other a thousand times. What comes of that must be told before it
is written out, since by then it no longer fits into memory, or nests deeper than JSON can be read.
"""

from __future__ import annotations

from typing import Any

from adapter.graph.expressions import EvaluationFailed

MAX_LEVELS = 128
"""Twice what a value at the door may have, so that any output fits into any config."""

MAX_BULK = 16 * 1024 * 1024
"""Characters that one rendered config may hold; each value in a list or object counts as 8."""

_VALUE = 8


def bounded(node: str, value: Any) -> Any:
    """Returns a rendered config.

    Args:
        node: The node, for the message.
        value: JSON.

    Raises:
        EvaluationFailed: It nests deeper than ``MAX_LEVELS``, or is larger than any limit allows.
    """
    if _left(value, MAX_LEVELS, MAX_BULK) < 0:
        raise EvaluationFailed(
            f"the config of node {node!r} nests deeper than {MAX_LEVELS} levels or is larger than"
            f" {MAX_BULK // 1024 // 1024} MB with its values put in"
        )
    return value


def _left(value: Any, levels: int, left: int) -> int:
    kind = type(value)
    if kind is str:
        return left - len(value)
    if kind is dict:
        items = value.values()
    elif kind is list:
        items = value
    else:
        return left
    left -= _VALUE * len(value)
    if not levels:
        return -1
    for item in items:
        if left < 0:
            return left
        if type(item) is str:
            left -= len(item)
        elif type(item) in (dict, list):
            left = _left(item, levels - 1, left)
    return left
