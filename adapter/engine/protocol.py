"""What Almanac asks of an engine: to look at an instance soon.

Those who compare the engine with the record (doctor, rebuild) also ask what executions it knows;
nothing that an instance does depends on the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime


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


@dataclass(frozen=True, slots=True)
class Execution:
    """What an engine knows of the newest execution of an instance.

    Attributes:
        ulid: The instance.
        status: ``open``, or how it was closed: ``completed`` (its last turn said that the instance
            had ended), ``terminated`` (by hand), ``failed``, ``cancelled``, ``timed_out``.
        started_at: By the engine's clock.
        closed_at: Likewise; None while it is open.
    """

    ulid: str
    status: str
    started_at: datetime
    closed_at: datetime | None

    @property
    def open(self) -> bool:
        """Whether it will take a turn when it is poked, or has one to take."""
        return self.status == "open"


class Executions(Protocol):
    """Tells of executions. All calls raise ``Unavailable`` when the engine does not answer."""

    def listed(self, *, closed_since: datetime | None = None) -> AsyncIterator[Execution]:
        """Lists open executions, or those closed since a moment; newest first.

        A list may lag behind by seconds: who acts on it asks ``describe`` first.
        """
        ...

    async def describe(self, ulid: str) -> Execution | None:
        """Tells of an instance's newest execution; None when the engine knows of none."""
        ...

    async def polled_at(self) -> datetime | None:
        """When a worker last asked for work, by the engine's clock; None if it cannot be told."""
        ...
