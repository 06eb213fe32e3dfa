"""What a decision lacks: values that the caller has to fetch before it can be taken."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .structure import Key

NONE: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class Needs:
    """Values by where they are kept; all empty when nothing is missing.

    Attributes:
        outputs: Step runs whose output is needed.
        inputs: Step runs whose resolved config is needed.
        payloads: Inbox rows whose payload is needed.
        definitions: Keys of definitions whose current version is needed.
        instances: Ulids of ended instances whose output is needed.
        statuses: Ulids of instances whose status is needed as it is now.
    """

    outputs: frozenset[Key] = NONE
    inputs: frozenset[Key] = NONE
    payloads: frozenset[Key] = NONE
    definitions: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()
    statuses: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether anything is needed."""
        return any(getattr(self, field.name) for field in fields(self))


NOTHING = Needs()


class ValuesNeeded(Exception):
    """A decision needs values that are not at hand; never leaves ``decide``."""

    def __init__(self, needs: Needs) -> None:
        super().__init__("values needed")
        self.needs = needs
