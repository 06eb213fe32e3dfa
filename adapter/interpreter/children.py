"""Instances that a step starts or waits for, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .state import Wait
    from .structure import Key

EndedStatus = Literal["completed", "failed", "cancelled", "unknown"]


@dataclass(frozen=True, slots=True)
class Definition:
    """The current version of a definition, as a child is started with it."""

    id: Key
    version: Key
    actor_mode: str


@dataclass(frozen=True, slots=True)
class Child:
    """An instance to be started in the append that decides so.

    Attributes:
        id: The instance's row id, drawn beforehand.
        payload: Its trigger payload.
        idempotency: What makes this start one of its kind: node, visit, attempt, index.
    """

    id: Key
    ulid: str
    definition: Definition
    payload: Any
    idempotency: str


@dataclass(frozen=True, slots=True)
class Ended:
    """An instance that has ended; ``unknown`` when no instance has that ulid.

    Attributes:
        output: The output of its end node.
        size: Bytes of that output.
        read: Whether ``output`` was asked for and is at hand.
        code: Its failure code.
    """

    ulid: str
    status: EndedStatus
    output: Any = None
    size: int = 0
    read: bool = False
    code: str | None = None


def orphaned(wait: Wait) -> tuple[Key, ...]:
    """The step runs whose children are let go if the wait ends now."""
    left = wait.children and len(wait.statuses) < len(wait.instances)
    return (*wait.family, wait.step) if left else ()
