"""Texts at the door: names and keys that people type, and JSON that they send."""

from __future__ import annotations

from typing import Any, TypeGuard

import orjson

from adapter.errors import InvalidInput


def is_printable(value: Any, most: int) -> TypeGuard[str]:
    """Whether the value is text of 1 to ``most`` printable characters.

    Control characters, NUL and lone surrogates are not printable, so what passes can be stored,
    logged and put between separators.
    """
    return isinstance(value, str) and 0 < len(value) <= most and value.isprintable()


def read_text(text: str | bytes, *, name: str) -> Any:
    """Returns the value of a JSON text.

    Raises:
        InvalidInput: ``invalid_json``; the message names line and column.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(
            f"{name} is not JSON: {error.msg.split(': line ')[0]} (line {error.lineno}, column"
            f" {error.colno})",
            code="invalid_json",
        ) from None
