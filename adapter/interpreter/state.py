"""Where an instance stands, as a value: the fold of its journal.

A state is never changed; ``adapter.interpreter.apply`` makes the next one. Outputs are not in it,
only references to the step runs that hold them, so that it stays small whatever handlers return.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .structure import EMPTY, MAIN_LINE, Family, Key, Line, Position, Result, Scope, Signal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

InstanceStatus = Literal[
    "pending", "running", "waiting", "paused", "completed", "failed", "cancelled"
]
StepStatus = Literal["scheduled", "retrying", "running", "waiting"]

ENDED: frozenset[str] = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Step:
    """An open step run: one attempt of one visit to one node.

    Attributes:
        failures: Attempts of this visit that failed before this one.
        losses: Attempts of this visit whose worker died before this one.
        source: The step run that holds the resolved config, where it is another attempt's.
        due_at: When a retrying step may begin; by the database's clock.
        token: Who runs it: the writer that began it.
        worker: The worker process of that writer.
        queue: The task queue whose activity runs it, "" for the default one; None runs it inline.
    """

    id: Key
    node: str
    type: str
    visit: int
    attempt: int
    status: StepStatus
    line: str = MAIN_LINE
    failures: int = 0
    losses: int = 0
    source: Key | None = None
    due_at: datetime | None = None
    token: str | None = None
    worker: str | None = None
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """An open wait of a step run: for a time, an event, signals or instances; or until a time.

    Attributes:
        signals: Names of the signals that it waits for.
        correlation: What a signal's correlation must be.
        taken: The signals that it has taken so far: inbox row by name.
        instances: Ulids of the instances that it waits for.
        children: Whether these are the instance's own, which end with the wait.
        family: Earlier step runs of the visit, some of whose instances it waits for.
        statuses: How those instances ended that have, by ulid.
    """

    id: Key
    step: Key
    node: str
    kind: str
    due_at: datetime | None = None
    event: str | None = None
    match: Mapping[str, Any] | None = None
    outcome: str | None = None
    signals: tuple[str, ...] = ()
    correlation: str | None = None
    taken: Mapping[str, Key] = field(default_factory=lambda: EMPTY)
    instances: tuple[str, ...] = ()
    children: bool = False
    family: tuple[Key, ...] = ()
    statuses: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class AcceptFrom:
    """From where on stored events count for the instance.

    Attributes:
        snapshot: ``pg_current_snapshot()`` at the start; what was visible in it came before.
        after: The id of the event that started the instance, exclusive.
    """

    snapshot: str | None = None
    after: Key | None = None


@dataclass(frozen=True, slots=True)
class Frozen:
    """What was open when the instance failed: where a retry takes it up again.

    Attributes:
        position: Where it failed; None if nothing there can be tried again.
    """

    position: Position | None
    steps: Mapping[Key, Step]
    scopes: Mapping[str, Scope]
    lines: Mapping[str, Line]


@dataclass(frozen=True)
class State:
    """One instance at one ``seq`` of its journal.

    Attributes:
        values: The workflow variables that ``set`` nodes write.
        visits: How often each node was entered.
        results: The latest finished step run of each node.
        steps: Open step runs by id, in the order in which they were opened.
        waits: Open waits by id.
        consumed: Ids of the events that waits have taken.
        steps_count: Visits so far, counted against ``limits.max_steps``.
        current: The main line's node.
        newest_id: The highest step run id so far; ids of an instance only grow.
        paused: Whether it is paused; what comes is kept, and nothing begins.
        scopes: Visits to structure nodes that are under way, by their key.
        lines: Lines that are under way beside the main one, by name.
        signals: Signals that no wait has taken yet, in the order of their inbox rows.
        started: Children started so far, counted against ``limits.max_started``.
        frozen: Set when it has failed.
        families: What visits have started whose wait has failed, by ``<node>.<visit>``.
    """

    seq: int = 0
    status: InstanceStatus = "pending"
    values: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    visits: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    results: Mapping[str, Result] = field(default_factory=lambda: EMPTY)
    steps: Mapping[Key, Step] = field(default_factory=lambda: EMPTY)
    waits: Mapping[Key, Wait] = field(default_factory=lambda: EMPTY)
    consumed: frozenset[Key] = frozenset()
    steps_count: int = 0
    current: str | None = None
    accept_from: AcceptFrom = field(default_factory=AcceptFrom)
    newest_id: Key | None = None
    paused: bool = False
    scopes: Mapping[str, Scope] = field(default_factory=lambda: EMPTY)
    lines: Mapping[str, Line] = field(default_factory=lambda: EMPTY)
    signals: tuple[Signal, ...] = ()
    started: int = 0
    frozen: Frozen | None = None
    families: Mapping[str, Family] = field(default_factory=lambda: EMPTY)

    def evolve(self, **changes: Any) -> State:
        """The next state: this one with some parts changed and ``seq`` one higher.

        As ``dataclasses.replace``, at a tenth of its price: a step is two or three of these.
        """
        state = object.__new__(State)
        parts = state.__dict__
        parts.update(self.__dict__)
        parts["seq"] = self.seq + 1
        parts.update(changes)
        return state

    @property
    def ended(self) -> bool:
        """Whether nothing will happen any more by itself."""
        return self.status in ENDED


__all__ = [
    "EMPTY",
    "ENDED",
    "MAIN_LINE",
    "AcceptFrom",
    "Frozen",
    "InstanceStatus",
    "Key",
    "Result",
    "State",
    "Step",
    "StepStatus",
    "Wait",
]
