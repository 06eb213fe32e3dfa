"""What a JSON value is, in words, for messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def kind_of(value: Any) -> str:
    """Returns ``a list of 3``, ``a text``, ``null`` and the like; never the value itself."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return f"a list of {len(value)}"
        case Mapping():
            return "an object"
    return f"no JSON but {type(value).__name__}"
