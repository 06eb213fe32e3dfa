"""What a turn tells whoever drives the instance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Queued:
    """A step that an activity is to run.

    Attributes:
        step: The step run.
        queue: Its task queue, "" for the default one.
    """

    step: str
    queue: str


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a driver has to know after a turn.

    Attributes:
        status: The instance's status.
        node: The main line's node.
        ended: Nothing is left to do, ever.
        more: Something is left to do now: take another turn at once.
        delay: Seconds to the next thing that falls due; None when only an event can go on.
        progressed: Whether the turn wrote anything.
        stuck: Work is due that this turn could not do; another one at once would not help.
        queued: All steps that activities are to run, or are running; while paused only these.
            None when another turn came in between, which knows better.
    """

    status: str
    node: str | None
    ended: bool
    more: bool
    delay: float | None
    progressed: bool
    stuck: bool = False
    queued: tuple[Queued, ...] | None = ()
