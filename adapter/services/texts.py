"""What counts as a name or key that people type: short printable text."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_printable(value: Any, most: int) -> TypeGuard[str]:
    """Whether the value is text of 1 to ``most`` printable characters.

    Control characters, NUL and lone surrogates are not printable, so what passes can be stored,
    logged and put between separators.
    """
    return isinstance(value, str) and 0 < len(value) <= most and value.isprintable()
