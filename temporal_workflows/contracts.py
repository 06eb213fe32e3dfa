"""The names and shapes that cross Temporal: nothing else does, and none of it is a decision."""

from __future__ import annotations

from dataclasses import dataclass, field

from adapter.engine.names import LOOK_SIGNAL, TASK_TIMEOUT, WORKFLOW_TYPE, workflow_id

TURN_ACTIVITY = "almanac.turn"
STEP_ACTIVITY = "almanac.step"

NEWER_JOURNAL = "newer_journal"
NOT_FOUND = "not_found"
NOT_NOW = "not_now"


@dataclass(frozen=True, slots=True)
class QueuedStep:
    """A step that an activity is to run.

    Attributes:
        step: The step run's id, which is the activity's too.
        queue: The task queue that its node or action names; "" for none.
    """

    step: str
    queue: str


@dataclass(frozen=True, slots=True)
class Turned:
    """What the driver learns from a turn; see ``adapter.execution.turned.TurnResult``.

    Attributes:
        leaving: The worker stops: another one is to take the next turn.
        start: Steps to run that are not under way.
        stop: Steps under way that are not to be run any more.
    """

    status: str
    node: str | None
    ended: bool
    more: bool
    delay: float | None
    stuck: bool
    leaving: bool = False
    start: list[QueuedStep] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)


def queue_name(own: str, named: str) -> str:
    """Temporal's name for a task queue that a node or an action names.

    The workers' own queue is part of it, so that deployments which share a namespace do not run
    each other's steps.

    Args:
        own: The task queue of the execution, or of the worker.
        named: What the node or action names; "" for none.
    """
    return f"{own}:{named}" if named else own


__all__ = [
    "LOOK_SIGNAL",
    "NEWER_JOURNAL",
    "NOT_FOUND",
    "NOT_NOW",
    "STEP_ACTIVITY",
    "TASK_TIMEOUT",
    "TURN_ACTIVITY",
    "WORKFLOW_TYPE",
    "QueuedStep",
    "Turned",
    "queue_name",
    "workflow_id",
]
