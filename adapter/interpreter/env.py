"""Everything that a decision may know beside the state: arguments in place of a world."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .state import EMPTY, Key, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from .events import StoredEvent


@dataclass(frozen=True, slots=True)
class Facts:
    """What never changes about an instance: its row's own columns.

    Attributes:
        trigger: The payload that it was started with.
        subject: ``{"type", "id", "key"}`` or None.
        instance: What the name ``instance`` stands for in expressions.
    """

    ulid: str
    trigger: Any = None
    subject: Mapping[str, Any] | None = None
    instance: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


class Retry(Protocol):
    """How often and how soon a failed attempt is repeated."""

    @property
    def max_attempts(self) -> int:
        """Attempts in all, the first one included."""
        ...

    def delay(self, attempt: int) -> timedelta:
        """How long to wait after the failed attempt of that number, without jitter."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    """What a worker knows about an action it has a handler for."""

    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one instance (``Settings.limits``, lowered by the graph)."""

    max_steps: int = 10_000
    max_lost: int = 3
    max_state_bytes: int = 1024 * 1024
    max_output_bytes: int = 256 * 1024
    input_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Env:
    """The arguments of one decision.

    Attributes:
        now: The database's clock.
        writer: The token of the turn that asks.
        worker: The process of that turn.
        step_id: Draws the id of a new step run; ids grow.
        wait_id: Draws the id of a new wait.
        begin: Whether handlers may be begun now; the turn runs what it begins at once.
        policies: The actions that this worker has handlers for.
        outputs: Outputs of finished step runs, as far as they are at hand.
        inputs: Resolved configs of earlier attempts, as far as they are at hand.
        stored: Events that the open (or opening) wait may take, in id order.
        random: A number in [0, 1) for jitter.
    """

    facts: Facts
    now: datetime
    writer: str
    worker: str
    step_id: Callable[[], Key]
    wait_id: Callable[[], Key]
    begin: bool = True
    bounds: Bounds = field(default_factory=Bounds)
    policies: Mapping[str, Policy] = field(default_factory=lambda: EMPTY)
    outputs: Mapping[Key, Any] = field(default_factory=lambda: EMPTY)
    inputs: Mapping[Key, Any] = field(default_factory=lambda: EMPTY)
    stored: Callable[[Wait], Sequence[StoredEvent]] = lambda _wait: ()
    random: float = 0.0
