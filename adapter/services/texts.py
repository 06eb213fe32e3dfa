"""Texts at the door: names and keys that people type, and JSON that they send."""

from __future__ import annotations

from typing import Any, TypeGuard

import orjson

from adapter.errors import InvalidInput
from adapter.graph.flaws import find_flaw


def is_printable(value: Any, most: int) -> TypeGuard[str]:
    """Whether the value is text of 1 to ``most`` printable characters.

    Control characters, NUL and lone surrogates are not printable, so what passes can be stored,
    logged and put between separators.
    """
    return isinstance(value, str) and 0 < len(value) <= most and value.isprintable()


def read_text(text: str | bytes, *, name: str, line: int | None = None) -> Any:
    """Returns the value of a JSON text.

    Args:
        text: The text; bytes are UTF-8.
        name: What it is called in messages.
        line: Where it stands, when it is one line of a file.

    Raises:
        InvalidInput: ``invalid_json``; the message names line and column.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        flaw = find_flaw(text, line=line)
        if flaw is None:
            said = error.msg.split(": line ")[0]
            flaw = f"line {line or error.lineno}, column {error.colno}: {said}"
        raise InvalidInput(f"{name} is not JSON: {flaw}", code="invalid_json") from None
