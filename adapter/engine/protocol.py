"""What Almanac asks of an engine: to look at an instance soon. Nothing else crosses this seam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Labels:
    """What people find an instance's execution by; nothing of ours reads it back.

    Attributes:
        definition: The key of the definition.
        owner: The owner's scope, ``<type>:<id>`` or ``*``.
    """

    definition: str
    owner: str


class Engine(Protocol):
    """Brings an instance to a worker's attention.

    Both calls may be repeated, merged, reordered or lost without harm: they carry no content. They
    raise ``Unavailable`` when the engine cannot be reached within their deadline.

    An execution has the labels of the call that brought it about. No call fails for its labels: an
    engine that cannot keep them does without.
    """

    async def start(self, ulid: str, labels: Labels | None = None) -> None:
        """Sees to it that an execution of the instance exists; a poke if one does already."""
        ...

    async def poke(self, ulid: str, labels: Labels | None = None) -> None:
        """Tells the instance's execution to look at its record; starts one if there is none."""
        ...
