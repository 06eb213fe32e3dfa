"""What commands are given: files, JSON, references, times; read and refused with clear errors."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapter.errors import InvalidInput
from adapter.graph.durations import parse_duration, parse_time
from adapter.services.awaiting import accept_timeout
from adapter.services.morphs import Ref
from adapter.services.texts import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapter.settings import MorphKeyType

STANDARD_INPUT = "-"


def read_file(path: str) -> bytes:
    """Returns what a file holds; ``-`` is standard input.

    Raises:
        InvalidInput: ``no_such_file``: it cannot be read.
    """
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def read_json(text: str | None) -> Any:
    """Returns the value of an argument: JSON, ``@FILE`` or ``-``; None for none.

    Raises:
        InvalidInput: ``invalid_json`` or ``no_such_file``.
    """
    if text is None:
        return None
    if text == STANDARD_INPUT or text.startswith("@"):
        path = text.removeprefix("@")
        return read_text(read_file(path), name=_named(path))
    return read_text(text, name="the payload")


def read_lines(path: str) -> Iterator[tuple[int, Any]]:
    """Yields (line number, value) of a file with one JSON value a line; empty lines are skipped.

    Raises:
        InvalidInput: ``invalid_json`` or ``no_such_file``; the message names the line.
    """
    for number, line in enumerate(read_file(path).splitlines(), start=1):
        if line.strip():
            yield number, read_text(line, name=_named(path), line=number)


def read_reference(text: str | None, role: str, kind: MorphKeyType) -> Ref | None:
    """Returns the reference that ``TYPE:ID`` names.

    Raises:
        InvalidInput: ``invalid_reference``.
    """
    if text is None:
        return None
    name, colon, key = text.partition(":")
    if not colon or not name or not key:
        raise InvalidInput(
            f"--{role} takes TYPE:ID, not {text!r:.80}", code="invalid_reference", role=role
        )
    if kind == "bigint":
        try:
            return Ref(name, int(key))
        except ValueError:
            raise InvalidInput(
                f"the id of the {role} must be a whole number, not {key!r:.80}",
                code="invalid_reference",
                role=role,
            ) from None
    return Ref(name, key)


def read_wait(seconds: float | None) -> float | None:
    """Returns how long to wait; asked for before anything is written.

    Raises:
        InvalidInput: ``invalid_timeout``.
    """
    return None if seconds is None else accept_timeout(seconds)


def read_ttl(text: str | None) -> timedelta | None:
    """Returns the duration for which an idempotency key is kept.

    Raises:
        InvalidInput: ``invalid_idempotency_ttl``.
    """
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise InvalidInput(
            f"--idempotency-ttl: {error}; an hour is PT1H", code="invalid_idempotency_ttl"
        ) from None


def read_since(text: str | None) -> datetime | None:
    """Returns the time that an RFC 3339 time names, or an ISO 8601 duration before now.

    Raises:
        InvalidInput: ``invalid_filter``.
    """
    if text is None:
        return None
    try:
        if text.startswith("P"):
            return datetime.now(UTC) - parse_duration(text)
        return parse_time(text)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"--since takes a time such as 2026-01-31T08:00:00Z or a duration such as PT1H, not"
            f" {text!r:.80}",
            code="invalid_filter",
        ) from None


def _unreadable(path: str, error: OSError) -> InvalidInput:
    why = (error.strerror or str(error)).lower()
    return InvalidInput(f"cannot read {_named(path)}: {why}", code="no_such_file", path=path)


def _named(path: str) -> str:
    return "standard input" if path == STANDARD_INPUT else path
