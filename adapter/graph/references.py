"""What an expression, condition or template reads: so that only that is loaded and bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES: Final = ("trigger", "steps", "state", "subject", "instance", "item")
"""The names that every expression may use."""

ITEM: Final = "item"
"""The item at hand; only inside a ``for_each``, and in the input of a ``start_workflow``."""

EVENT: Final = "event"
"""The payload of the event being tested; only in the conditions of ``wait`` and ``trigger``."""


@dataclass(frozen=True, slots=True)
class References:
    """The names that are read, and the steps read through ``steps``.

    Attributes:
        names: Top-level names, a subset of NAMES plus EVENT.
        steps: Node ids; None when any step may be read (``steps`` as a whole, or a computed id).
    """

    names: frozenset[str] = frozenset()
    steps: frozenset[str] | None = frozenset()

    @classmethod
    def union(cls, parts: Iterable[References]) -> References:
        """Everything that any of the parts reads."""
        names: set[str] = set()
        steps: set[str] | None = set()
        for part in parts:
            names |= part.names
            steps = None if steps is None or part.steps is None else steps | part.steps
        return cls(frozenset(names), None if steps is None else frozenset(steps))


NOTHING: Final = References()
