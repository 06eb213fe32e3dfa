"""Texts for people, made fit for a text column."""

from __future__ import annotations

MAX_MESSAGE = 4_000
"""Characters of a message that are kept."""


def clean(text: str) -> str:
    """A text that PostgreSQL takes: no NUL, no lone surrogates, bounded."""
    kept = text[:MAX_MESSAGE].replace("\x00", "\\0")
    return kept.encode("utf-8", "backslashreplace").decode("utf-8")
