"""Fields of conditions: a dotted path from one of the names, read without ever failing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from adapter.errors import InvalidInput
from adapter.graph.references import EVENT, NAMES, References


@dataclass(frozen=True, slots=True)
class Field:
    """One compiled path.

    Attributes:
        path: As it stands in the document.
        refs: What it reads.
        read: (names) -> the value there, None when any part of the path is missing.
    """

    path: str
    refs: References
    read: Callable[[Mapping[str, Any]], Any]


def compile_field(path: Any, *, event: bool = False) -> Field:
    """Compiles a path such as ``steps.next.output.activity`` or ``trigger.lines.0.price``.

    Raises:
        InvalidInput: Not text, an empty part, or an unknown first name.
    """
    if not isinstance(path, str) or not all(parts := path.split(".")):
        raise InvalidInput(f"{path!r:.80} is not a dotted path such as 'trigger.amount'.")
    name, *keys = parts
    known = (*NAMES, EVENT) if event else NAMES
    if name not in known:
        raise InvalidInput(
            f"A field begins with one of {', '.join(known)}, not with {name!r:.80}.",
            reason="unknown_name",
            name=name,
        )
    steps: frozenset[str] | None = frozenset()
    if name == "steps":
        steps = frozenset(keys[:1]) if keys else None
    return Field(path, References(frozenset({name}), steps), _reader(name, tuple(keys)))


def _reader(  # noqa: C901 - a case for each length: faster than a loop
    name: str, keys: tuple[str, ...]
) -> Callable[[Mapping[str, Any]], Any]:
    """One plain chain of look-ups for the usual case; ``_search`` when it meets something else."""

    def search(names: Mapping[str, Any]) -> Any:
        return _search(names, name, keys)

    match keys:
        case ():
            return lambda names: names.get(name)
        case (a,):

            def read(names: Mapping[str, Any]) -> Any:
                try:
                    return names[name][a]
                except (KeyError, TypeError):
                    return search(names)
        case (a, b):

            def read(names: Mapping[str, Any]) -> Any:
                try:
                    return names[name][a][b]
                except (KeyError, TypeError):
                    return search(names)
        case (a, b, c):

            def read(names: Mapping[str, Any]) -> Any:
                try:
                    return names[name][a][b][c]
                except (KeyError, TypeError):
                    return search(names)
        case _:
            return search
    return read


def _search(names: Mapping[str, Any], name: str, keys: tuple[str, ...]) -> Any:
    value = names.get(name)
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 10:
            index = int(key)
            value = value[index] if index < len(value) else None
        else:
            return None
    return value
