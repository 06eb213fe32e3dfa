"""JSON pointers (RFC 6901): how findings and errors name a place in a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def pointer_of(path: Iterable[str | int]) -> str:
    """The pointer of a path of keys and indexes; the empty string is the whole document."""
    return "".join(
        "/" + part.replace("~", "~0").replace("/", "~1") if isinstance(part, str) else f"/{part}"
        for part in path
    )
