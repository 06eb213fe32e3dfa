"""What can happen to an instance: the questions that ``decide`` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from .state import Key


@dataclass(frozen=True, slots=True)
class Arrived:
    """An inbox row that the instance has not applied yet.

    Attributes:
        id: The inbox row's id; rows are applied in its order.
        kind: ``start``, ``event``, or the name of a command.
        payload: The row's payload; for ``event`` the event's.
        event: The id of the event that it delivers.
    """

    id: Key
    kind: str
    payload: Any = None
    event: Key | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as ``error_code``, ``error_message`` and ``error_retryable``."""

    code: str
    message: str
    retryable: bool = True


@dataclass(frozen=True, slots=True)
class Finished:
    """A handler came to its end.

    Attributes:
        output: Canonical JSON.
        failure: Set when it failed.
        outcome: Names the edge to take after a success.
    """

    step: Key
    token: str
    output: Any = None
    failure: Failure | None = None
    outcome: str = "success"


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A new turn begins: open attempts of other turns are lost.

    Attributes:
        gone: Workers that died; a loss counts against ``max_lost`` only for them.
        expired: Queued step runs whose lease is over; others that run are left alone.
        inline: Whether inline attempts of others are lost; False for who is no turn.
    """

    gone: frozenset[str] = frozenset()
    expired: frozenset[Key] = frozenset()
    inline: bool = True


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing new from outside: do what is due, begin what may begin."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An emitted event that a wait may take; ``at`` is when it was emitted, if that is known."""

    id: Key
    payload: Mapping[str, Any]
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """An activity asks to run a queued step.

    Attributes:
        step: The step run.
        lease: Seconds after which it counts as lost unless the lease is renewed.
    """

    step: Key
    lease: float


@dataclass(frozen=True, slots=True)
class HandedBack:
    """A worker that shuts down gives back a queued step that it has not ended."""

    step: Key
    token: str


Event = Arrived | Finished | TakeOver | Tick | Claimed | HandedBack
