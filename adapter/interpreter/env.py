"""Everything that a decision may know beside the state: arguments in place of a world."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .state import EMPTY, Key, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from .children import Definition, Ended
    from .events import StoredEvent


@dataclass(frozen=True, slots=True)
class Facts:
    """What never changes about an instance: its row's own columns.

    Attributes:
        trigger: The payload that it was started with.
        subject: ``{"type", "id", "key"}`` or None.
        instance: What the name ``instance`` stands for in expressions.
        depth: How many instances it stands below: 0 for one that nobody's step has started.
    """

    ulid: str
    trigger: Any = None
    subject: Mapping[str, Any] | None = None
    instance: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    depth: int = 0


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
    """What a worker knows about an action it has a handler for.

    Attributes:
        retry: How failed attempts are repeated where the graph does not say.
        timeout: Seconds that one attempt may take where the graph does not say.
        queue: The task queue that its steps are run on; None for any.
        heartbeat: Whether it reports that it is alive, so that it is run by an activity.
    """

    retry: Retry | None = None
    timeout: float = 2.0
    queue: str | None = None
    heartbeat: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one instance (``Settings.limits``, lowered by the graph)."""

    max_steps: int = 10_000
    max_lost: int = 3
    max_state_bytes: int = 1024 * 1024
    max_output_bytes: int = 256 * 1024
    input_bytes: int = 64 * 1024
    max_items: int = 10_000
    max_depth: int = 10
    max_started: int = 1_000
    max_signals: int = 10_000


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
        activities: Whether activities run queued steps; without them every step is inline.
        policies: The actions that this worker has handlers for.
        outputs: Outputs of finished step runs, as far as they are at hand.
        inputs: Resolved configs of earlier attempts, as far as they are at hand.
        stored: Events that the open (or opening) wait may take, in id order.
        random: A number in [0, 1) for jitter.
        child_id: Draws the id of an instance to be started.
        ulid: Draws a public id.
        payloads: Payloads of inbox rows, as far as they are at hand.
        definitions: Definitions by key, as far as they were asked for; None for one that is not
            there or has nothing published.
        ended: Instances that open waits name and that have ended, by ulid; with their outputs as
            far as they were asked for.
        statuses: How instances stand that were asked for, by ulid: ``running`` if they have not
            ended, ``unknown`` if they do not exist.
    """

    facts: Facts
    now: datetime
    writer: str
    worker: str
    step_id: Callable[[], Key]
    wait_id: Callable[[], Key]
    begin: bool = True
    activities: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    policies: Mapping[str, Policy] = field(default_factory=lambda: EMPTY)
    outputs: Mapping[Key, Any] = field(default_factory=lambda: EMPTY)
    inputs: Mapping[Key, Any] = field(default_factory=lambda: EMPTY)
    stored: Callable[[Wait], Sequence[StoredEvent]] = lambda _wait: ()
    random: float = 0.0
    child_id: Callable[[], Key] = lambda: 0
    ulid: Callable[[], str] = lambda: ""
    payloads: Mapping[Key, Any] = field(default_factory=lambda: EMPTY)
    definitions: Mapping[str, Definition | None] = field(default_factory=lambda: EMPTY)
    ended: Mapping[str, Ended] = field(default_factory=lambda: EMPTY)
    statuses: Mapping[str, str] = field(default_factory=lambda: EMPTY)
