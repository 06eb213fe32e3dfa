"""Where an instance stands, as a value: the fold of its journal.

A state is never changed; ``adapter.interpreter.apply`` makes the next one. Outputs are not in it,
only references to the step runs that hold them, so that it stays small whatever handlers return.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Key = int | str
"""A row's id: an int for ``bigint`` keys, text for ``uuid`` and ``ulid`` keys."""

InstanceStatus = Literal[
    "pending", "running", "waiting", "paused", "completed", "failed", "cancelled"
]
StepStatus = Literal["scheduled", "retrying", "running", "waiting"]

ENDED: frozenset[str] = frozenset({"completed", "failed", "cancelled"})
MAIN_LINE = ""
"""The line of control that begins at the trigger; a structure node names others."""

EMPTY: Mapping[Any, Any] = MappingProxyType({})


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


@dataclass(frozen=True, slots=True)
class Wait:
    """An open wait of a step run: for a time, an event, or an event until a time."""

    id: Key
    step: Key
    node: str
    kind: str
    due_at: datetime | None = None
    event: str | None = None
    match: Mapping[str, Any] | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The latest finished step run of a node: where its output lies and how it ended."""

    step: Key
    outcome: str


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

    def evolve(self, **changes: Any) -> State:
        """The next state: this one with some parts changed and ``seq`` one higher.

        As ``dataclasses.replace``, at a third of its price: a step is two or three of these.
        """
        get = changes.get
        return State(
            get("seq", self.seq + 1),
            get("status", self.status),
            get("values", self.values),
            get("visits", self.visits),
            get("results", self.results),
            get("steps", self.steps),
            get("waits", self.waits),
            get("consumed", self.consumed),
            get("steps_count", self.steps_count),
            get("current", self.current),
            get("accept_from", self.accept_from),
            get("newest_id", self.newest_id),
        )

    @property
    def ended(self) -> bool:
        """Whether nothing will happen any more by itself."""
        return self.status in ENDED

    def as_json(self) -> dict[str, Any]:
        """The state as JSON values: what a ``snapshot`` entry holds."""
        return {
            "status": self.status,
            "values": dict(self.values),
            "visits": dict(self.visits),
            "results": {node: [r.step, r.outcome] for node, r in self.results.items()},
            "steps": [_plain(step) for step in self.steps.values()],
            "waits": [_plain(wait) for wait in self.waits.values()],
            "consumed": sorted(self.consumed, key=str),
            "steps_count": self.steps_count,
            "current": self.current,
            "accept_from": asdict(self.accept_from),
            "newest_id": self.newest_id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, seq: int) -> State:
        """The inverse of ``as_json``; ``seq`` is that of the entry that holds the data."""
        steps = [Step(**_timed(step)) for step in data["steps"]]
        waits = [Wait(**_timed(wait)) for wait in data["waits"]]
        return cls(
            seq=seq,
            status=data["status"],
            values=data["values"],
            visits=data["visits"],
            results={node: Result(*pair) for node, pair in data["results"].items()},
            steps={step.id: step for step in steps},
            waits={wait.id: wait for wait in waits},
            consumed=frozenset(data["consumed"]),
            steps_count=data["steps_count"],
            current=data["current"],
            accept_from=AcceptFrom(**data["accept_from"]),
            newest_id=data["newest_id"],
        )


def _plain(value: Step | Wait) -> dict[str, Any]:
    data = {name: part for name, part in asdict(value).items() if part is not None}
    if value.due_at is not None:
        data["due_at"] = value.due_at.isoformat()
    return data


def _timed(data: Mapping[str, Any]) -> dict[str, Any]:
    due = data.get("due_at")
    return {**data, "due_at": datetime.fromisoformat(due)} if due else dict(data)


__all__ = [
    "EMPTY",
    "ENDED",
    "MAIN_LINE",
    "AcceptFrom",
    "InstanceStatus",
    "Key",
    "Result",
    "State",
    "Step",
    "StepStatus",
    "Wait",
]
