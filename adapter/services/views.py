"""What readers get: an instance with its timeline, and summaries by the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

if TYPE_CHECKING:
    from datetime import datetime

T = TypeVar("T")
ENDED = frozenset({"completed", "failed", "cancelled"})
STOPPED = frozenset({"paused", "cancelled"})


class View:
    """Base of everything that is read: ``as_json`` gives it as JSON values, times in RFC 3339."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        made: dict[str, Any] = orjson.loads(orjson.dumps(self, option=orjson.OPT_UTC_Z))
        return made


@dataclass(frozen=True, slots=True)
class Reference(View):
    """A row of the host application; ids as text."""

    type: str
    id: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class FailureView(View):
    """Why an instance failed."""

    code: str
    message: str | None
    node: str | None


@dataclass(frozen=True, slots=True)
class StepView(View):
    """One step run: one attempt of one visit to one node.

    Attributes:
        line: Where it stands: "" on the main line, else ``<node>.<visit>:<name>``, the visit to
            the structure node that owns the line, and the name of the branch, the item's index or
            the iteration's number.
        progress: What its handler told last of how far it is, at ``progress_at``.
    """

    id: int | str
    node: str
    type: str
    line: str
    visit: int
    attempt: int
    status: str
    outcome: str | None
    input: Any
    output: Any
    error_code: str | None
    error_message: str | None
    error_retryable: bool | None
    scheduled_for: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    progress: Any = None
    progress_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WaitView(View):
    """One wait of a step.

    Attributes:
        timeout_outcome: The outcome of the step if the wait is not over when it is due; None when
            it has no due time.
        signals: The names of the signals that it is for.
        correlation: What those signals' correlation has to be.
        instances: The ulids of the instances that it is for.
    """

    id: int | str
    step: int | str
    node: str
    kind: str
    status: str
    due_at: datetime | None
    event: str | None
    match: Any
    condition: Any
    timeout_outcome: str | None
    signals: tuple[str, ...]
    correlation: str | None
    instances: tuple[str, ...]
    opened_at: datetime
    fired_at: datetime | None


@dataclass(frozen=True, slots=True)
class EdgeView(View):
    """One edge that was taken, or the place where none was.

    Attributes:
        seq: The journal entry that took it.
        line: Where its node stands, as of steps.
        by: ``outcome``, ``condition``, ``plain``, or ``none``.
        why: The reason in words, with the edge's own text from the published document; where a
            failure found no edge, what failed with it.
        code: Of the failure that was left by it, or that came of there being none.
    """

    seq: int
    at: datetime
    step: int | str | None
    node: str | None
    line: str
    outcome: str | None
    to: str | None
    by: str
    why: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class ChildView(View):
    """An instance that a step of the one shown has started.

    Attributes:
        step: That step run.
        index: The place of its item in the list, from 0; None for a step without items.
    """

    ulid: str
    step: int | str | None
    index: int | None
    key: str
    status: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class InboxView(View):
    """One thing that an instance was told: its start, a command, a signal, an event.

    Attributes:
        status: ``open`` until the instance gets to it, then ``done`` or ``refused``.
        reason: Why it was refused, a code.
        kept: Of a signal that is ``done``: whether no wait has taken it yet.
        event: The key of the event, where it is one.
        payload: The command's; an event's own, while the event is kept.
        sender: Who sent it, as one string.
    """

    id: int | str
    kind: str
    status: str
    reason: str | None
    kept: bool
    event: str | None
    payload: Any
    sender: str | None
    created_at: datetime
    applied_at: datetime | None


@dataclass(frozen=True, slots=True)
class StopView(View):
    """What has paused or cancelled an instance.

    Attributes:
        reason: What was said for people.
        sender: Who asked for it, as one string; None also where the graph itself has cancelled it.
        at: When it took effect.
    """

    reason: str | None
    sender: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class SignalView(View):
    """A signal that an instance has taken note of, and that no wait has taken.

    Attributes:
        id: Of its inbox row.
        sender: Who sent it, as one string.
        created_at: When it was sent.
    """

    id: int | str
    name: str
    payload: Any
    correlation: str | None
    sender: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EffectView(View):
    """An effect of ``ctx.once``.

    Attributes:
        key: The digest that names it.
        name: The key that the handler gave; None in records of earlier versions.
        step: The step run that has claimed it last; None in records of earlier versions.
        status: ``claimed`` while that attempt is at work on it, ``done``, or ``uncertain``: begun,
            and whether it happened cannot be known.
        value: What it gave, once it is done.
        created_at: When it was first claimed.
    """

    key: str
    name: str | None
    step: int | str | None
    node: str | None
    visit: int | None
    status: str
    value: Any
    created_at: datetime


@dataclass(frozen=True, slots=True)
class InstanceSummary(View):
    """One instance as a line of a list."""

    ulid: str
    id: int | str
    key: str
    version: int
    status: str
    current_node: str | None
    steps_count: int
    owner: Reference | None
    subject: Reference | None
    failure: FailureView | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime

    @property
    def ended(self) -> bool:
        """Whether nothing will happen any more by itself."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class InstanceView(InstanceSummary):
    """One instance with its timeline.

    Attributes:
        name: The definition's name.
        checksum: Of the version that it runs.
        waiting_for: What has to happen for it to go on, in words; empty once it has ended.
        steps: Step runs in the order in which they were opened; the newest ones if there are many.
        waits: Waits likewise, open ones in any case.
        edges: Edges taken, by journal seq, each with the reason.
        parent: The ulid of the instance that started it.
        stopped: Of a paused or a cancelled instance, what has made it so.
        children: Instances that it has started, in that order; the newest ones if there are many.
        commands: What it was told and has not got to, in the order in which it will.
        signals: Signals that no wait has taken, in the order in which waits will.
        effects: Effects of ``ctx.once``, in the order in which they were claimed; the newest ones
            if there are many.
        branches: The branches of each ``parallel`` node, in the order in which the nodes that they
            begin with stand in the document.
    """

    name: str
    checksum: str
    trigger_type: str
    trigger_key: str | None
    trigger_payload: Any
    actor_mode: str
    starter: Reference | None
    waiting_for: tuple[str, ...]
    steps: tuple[StepView, ...]
    waits: tuple[WaitView, ...]
    edges: tuple[EdgeView, ...]
    parent: str | None
    stopped: StopView | None
    children: tuple[ChildView, ...]
    commands: tuple[InboxView, ...]
    signals: tuple[SignalView, ...]
    effects: tuple[EffectView, ...]
    branches: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Page(View, Generic[T]):
    """Some items, and where the next page begins.

    Attributes:
        next: The cursor of the next page; None when this is the last one.
    """

    items: tuple[T, ...]
    next: str | None
