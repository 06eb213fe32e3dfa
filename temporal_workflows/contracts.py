"""The names and shapes that cross Temporal: nothing else does, and none of it is a decision."""

from __future__ import annotations

from dataclasses import dataclass

from adapter.engine.names import LOOK_SIGNAL, TASK_TIMEOUT, WORKFLOW_TYPE, workflow_id

TURN_ACTIVITY = "almanac.turn"

NEWER_JOURNAL = "newer_journal"
NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Turned:
    """What the driver learns from a turn; see ``adapter.execution.turn.TurnResult``."""

    status: str
    node: str | None
    ended: bool
    more: bool
    delay: float | None
    stuck: bool


__all__ = [
    "LOOK_SIGNAL",
    "NEWER_JOURNAL",
    "NOT_FOUND",
    "TASK_TIMEOUT",
    "TURN_ACTIVITY",
    "WORKFLOW_TYPE",
    "Turned",
    "workflow_id",
]
