"""The door: values become canonical JSON once; what PostgreSQL gives back is what was put in.

Canonical means: only ``dict`` with text keys, ``list``, ``str``, ``int``, ``float``, ``bool`` and
``None``; no NaN, no infinity, no integer beyond 2^53 - 1 (RFC 7493), no NUL and no lone surrogate
in text, integral floats as ``int``, negative zero as ``0``, at most 64 levels of nesting.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import rfc8785

from adapter.errors import InvalidValue
from adapter.graph.pointers import pointer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 64
TOO_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"

_QUIET = frozenset({bool, type(None)})


class _Refused(Exception):
    pass


def canonical(value: Any) -> Any:
    """Returns the value in canonical form; the same object when nothing had to change.

    Tuples become lists, and subclasses (``StrEnum``, ``IntEnum``, ``OrderedDict``) the plain type.
    A container that is not changed is returned as it is, not copied, so it must not be altered
    later.

    Raises:
        InvalidValue: ``details["pointer"]`` (JSON pointer) is the first place that cannot be kept.
    """
    try:
        return _walk(value, MAX_DEPTH)
    except _Refused:
        path, problem = next(problems(value))
        pointer = pointer_of(path)
        where = f" at {pointer}" if pointer else ""
        raise InvalidValue(
            f"The value{where} cannot be kept as JSON: {problem}.", pointer=pointer
        ) from None


def canonical_bytes(value: Any) -> bytes:
    """The RFC 8785 serialisation of the canonical form.

    Raises:
        InvalidValue: The value has no canonical form.
    """
    return rfc8785.dumps(canonical(value))


def checksum(document: Any) -> str:
    """SHA-256 of the canonical bytes, 64 hexadecimal digits: the identity of a graph document.

    Raises:
        InvalidValue: The document has no canonical form.
    """
    return hashlib.sha256(canonical_bytes(document)).hexdigest()


def problems(value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yields (path, what is wrong) for every part of the value that cannot be kept.

    Iterative, so that no nesting exhausts the stack; what lies below the deepest level is not
    looked at.
    """
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while stack:
        path, part = stack.pop()
        if isinstance(part, dict | list | tuple):
            if len(path) >= MAX_DEPTH:
                yield path, TOO_DEEP
                continue
            if isinstance(part, dict):
                for key in part:
                    if not isinstance(key, str):
                        yield path, f"the key {key!r:.80} is not text"
                    elif flaw := _text_flaw(key):
                        yield path, f"a key {flaw}"
                children = [((*path, k), v) for k, v in part.items() if isinstance(k, str)]
            else:
                children = [((*path, i), v) for i, v in enumerate(part)]
            stack.extend(reversed(children))
        elif flaw := _scalar_flaw(part):
            yield path, flaw


def _scalar_flaw(part: Any) -> str | None:
    if isinstance(part, str):
        flaw = _text_flaw(part)
        return f"the text {flaw}" if flaw else None
    if part is None or isinstance(part, bool):
        return None
    if isinstance(part, int):
        return None if -MAX_INTEGER <= part <= MAX_INTEGER else "the number is beyond 2^53 - 1"
    if isinstance(part, float):
        if not math.isfinite(part):
            return "the number is not finite"
        return (
            None
            if not part.is_integer() or abs(part) <= MAX_INTEGER
            else ("the number is beyond 2^53 - 1")
        )
    return f"{type(part).__name__} is not a JSON type"


def _text_flaw(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds a lone surrogate"
    return None


def _walk(value: Any, levels: int) -> Any:  # noqa: C901 - splitting it costs a call a value
    """The hot path: one pass, no path kept, a copy only from the first change on."""
    kind = type(value)
    if kind is str:
        if "\0" in value or not (value.isascii() or _encodes(value)):
            raise _Refused
        return value
    if kind is int:
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return value
        raise _Refused
    if kind in _QUIET:
        return value
    if kind is dict:
        return _walk_dict(value, levels)
    if kind is list:
        return _walk_list(value, levels)
    if kind is float:
        if value.is_integer():
            return _walk(int(value), levels)
        if math.isfinite(value):
            return value
        raise _Refused
    return _walk(_plain(value), levels)


def _walk_dict(value: dict[Any, Any], levels: int) -> dict[str, Any]:
    if not levels:
        raise _Refused
    changed: dict[str, Any] | None = None
    for key, item in value.items():
        if type(key) is not str:
            return _walk_dict({_plain_key(k): v for k, v in value.items()}, levels)
        if "\0" in key or not (key.isascii() or _encodes(key)):
            raise _Refused
        kind = type(item)
        if kind is str:
            if "\0" in item or not (item.isascii() or _encodes(item)):
                raise _Refused
            continue
        if kind in _QUIET:
            continue
        new = _walk(item, levels - 1)
        if new is not item:
            if changed is None:
                changed = dict(value)
            changed[key] = new
    return value if changed is None else changed


def _walk_list(value: list[Any], levels: int) -> list[Any]:
    if not levels:
        raise _Refused
    changed: list[Any] | None = None
    for index, item in enumerate(value):
        new = _walk(item, levels - 1)
        if new is not item:
            if changed is None:
                changed = list(value)
            changed[index] = new
    return value if changed is None else changed


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):  # pragma: no cover - bool cannot be subclassed
        return value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | tuple):
        return list(value)
    raise _Refused


def _plain_key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise _Refused
