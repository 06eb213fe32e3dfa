"""When something of an instance falls due: time-outs, delays, back-offs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from adapter.interpreter.state import State


def dues(state: State, now: datetime) -> list[datetime]:
    """When waits and attempts fall due; queued attempts that are due already have left."""
    times = [wait.due_at for wait in state.waits.values() if wait.due_at is not None]
    return times + [
        step.due_at
        for step in state.steps.values()
        if step.due_at is not None and (step.queue is None or step.due_at > now)
    ]


def until_due(state: State, now: datetime) -> float | None:
    """Seconds until the next of them, 0 if it is due; None when there is none, or in a pause."""
    times = [] if state.paused else dues(state, now)
    return max((min(times) - now).total_seconds(), 0.0) if times else None
