"""Rules for single entries, rows and moments.

Each raises AssertionError with what does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from adapter.interpreter import entries as kinds
from adapter.interpreter.state import ENDED
from adapter.records.writers import is_step_token
from adapter.testing.record import BEGIN, fits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from adapter.interpreter.entries import Entry
    from adapter.interpreter.state import AcceptFrom, Key, State, Step, Wait
    from adapter.testing.record import MemoryRecord
    from adapter.testing.rows import EventRow, InboxRow, InstanceRow

OPEN: Final = frozenset({"scheduled", "retrying", "running", "waiting"})

_TAKEN_AS: Final = {
    "start": kinds.STARTED,
    "signal": kinds.SIGNAL_RECEIVED,
    "pause": kinds.PAUSED,
    "resume": kinds.RESUMED,
    "cancel": kinds.CANCELLED,
    "retry": kinds.RETRIED,
    "event": kinds.INBOX_APPLIED,
    "child": kinds.INBOX_APPLIED,
}
_ENTERS: Final = frozenset(
    {kinds.STEP_STARTED, kinds.STEP_PASSED, kinds.WAIT_OPENED, kinds.SCOPE_OPENED, kinds.WAIT_FIRED}
)
"""What is not to be seen in a pause."""

_AFTER_THE_END: Final = frozenset({kinds.INBOX_APPLIED, kinds.RETRIED, kinds.SNAPSHOT})


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One entry, when it has just been appended.

    Attributes:
        record: All rows.
        row: The instance's.
        state: The state before the entry.
        entry: As the journal has it.
        writer: Who wrote it.
        writers: Who wrote the entries before the append.
    """

    record: MemoryRecord
    row: InstanceRow
    state: State
    entry: Entry
    writer: str
    writers: Sequence[str]

    @property
    def step(self) -> Step | None:
        """The open step run that it is about."""
        return None if self.entry.step is None else self.state.steps.get(self.entry.step)

    @property
    def wait(self) -> Wait | None:
        """The open wait that it is about."""
        return self.state.waits.get(self.entry.data.get("wait", 0))


def check(moment: Moment) -> None:
    """Checks whether an entry may follow the state before it."""
    kind = moment.entry.kind
    if moment.state.ended:
        assert kind in _AFTER_THE_END, f"{kind} after the end"
    if moment.state.paused:
        assert kind not in _ENTERS, f"{kind} in a pause"
    if kind == kinds.STEP_STARTED:
        _begun(moment)
    elif kind in (kinds.STEP_SUCCEEDED, kinds.STEP_FAILED):
        _reported(moment)
    elif kind == kinds.STEP_LOST:
        _lost(moment)
    elif kind == kinds.WAIT_FIRED:
        _fired(moment)
    elif kind == kinds.WAIT_TIMED_OUT:
        assert moment.wait is not None, "a wait timed out that is not open"
        _is_due(moment, moment.wait.due_at, "a wait")


def _begun(moment: Moment) -> None:
    assert moment.entry.data["token"] == moment.writer, "a step was begun for somebody else"
    step = moment.step
    if step is None:
        newest: Any = moment.state.newest_id
        assert newest is None or moment.entry.step > newest, "ids of step runs do not grow"
        return
    assert step.status != "running", f"step run {step.id} was begun twice"
    if step.due_at is not None:
        _is_due(moment, step.due_at, f"step run {step.id}")


def _reported(moment: Moment) -> None:
    """Only who runs a step says how it ended."""
    step = moment.step
    if step is not None and step.status == "running":
        assert step.token == moment.writer, f"step run {step.id} was ended by another writer"


def _lost(moment: Moment) -> None:
    """Who runs a queued step keeps it until its lease is over or he gives it back."""
    step = moment.step
    assert step is not None, "a step was lost that is not open"
    assert step.status == "running", f"step run {step.id} was lost while {step.status}"
    if step.queue is None:
        assert moment.writer not in moment.writers, "a turn took over after its first append"
    elif step.token != moment.writer and step.id not in moment.record.late:
        until = moment.row.steps[step.id].get("lease_until") or BEGIN
        _is_due(moment, until, f"the lease of step run {step.id}")


def _is_due(moment: Moment, due: datetime | None, what: str) -> None:
    latest = BEGIN + timedelta(seconds=moment.record.latest)
    assert due is not None, f"{what} has no time"
    assert due <= latest, f"{what} is not due before {due}, and no clock was beyond {latest}"


def _fired(moment: Moment) -> None:
    wait, data = moment.wait, moment.entry.data
    assert wait is not None, "a wait fired that is not open"
    if "event" in data:
        _took(moment, wait, moment.record.events[int(data["event"])])


def _took(moment: Moment, wait: Wait, event: EventRow) -> None:
    """The lowest event that fits, that the instance accepts, and that it has not taken."""
    shown = moment.row.waits[wait.id]
    assert fits(shown, event), f"event {event.id} does not fit wait {wait.id}"
    assert event.id not in moment.state.consumed, f"event {event.id} was taken twice"
    assert accepted(moment.state.accept_from, event), f"event {event.id} came before the start"
    if shown.get("condition") is None:
        for other in untaken(moment.record, moment.state, shown):
            before = other.id < event.id and other.number < event.number
            assert not before, f"event {event.id} was taken before {other.id}"


def accepted(accept_from: AcceptFrom, event: EventRow) -> bool:
    """Whether an event counts for an instance."""
    seen, after = int(accept_from.snapshot or 0), int(accept_from.after or 0)
    return event.number > seen and event.id > after


def untaken(record: MemoryRecord, state: State, wait: dict[str, Any]) -> list[EventRow]:
    """The events that a wait may take: none that came after its time."""
    due = wait.get("due_at")
    return [
        event
        for event in record.events.values()
        if event.id not in state.consumed
        and fits(wait, event)
        and accepted(state.accept_from, event)
        and (due is None or event.at <= due)
    ]


def not_overtaken(writers: Sequence[str], writer: str) -> None:
    """A turn in which another one came in between writes nothing more."""
    if not writers or is_step_token(writer) or writer == writers[-1]:
        return
    place = next((n for n in range(len(writers) - 1, -1, -1) if writers[n] == writer), None)
    if place is not None:
        between = [one for one in writers[place + 1 :] if not is_step_token(one)]
        assert not between, f"turn {writer} went on after {between[0]} had come in between"


def applied_as_told(entry: Entry, told: InboxRow) -> None:
    """What the journal says of a row is what was done about it."""
    result = entry.data.get("result") or {"status": "done"}
    assert told.result == result, f"inbox row {told.id} says {told.result}, the journal {result}"
    if result["status"] == "done":
        wanted = _TAKEN_AS[told.kind]
        assert entry.kind == wanted, f"{told.kind} of inbox row {told.id} led to {entry.kind}"


def let_go(record: MemoryRecord, before: State, after: State) -> None:
    """Children for which nobody waits any more are told to end."""
    for wait in before.waits.values():
        if not wait.children or wait.id in after.waits:
            continue
        for ulid in wait.instances:
            child = record.by_ulid[ulid]
            if ulid in wait.statuses or child.status in ENDED:
                continue
            told = any(one.kind == "cancel" for one in child.inbox.values())
            assert told, f"nobody waits for {ulid} any more, and it was not told"


def in_order(row: dict[str, Any]) -> None:
    """The times of a row do not run backwards."""
    times = [row.get(name) for name in ("created_at", "started_at", "finished_at")]
    known = [at for at in times if at is not None]
    assert known == sorted(known), f"the times of step run {row['id']} run backwards: {known}"


def nothing_left(record: MemoryRecord, row: InstanceRow, state: State, delay: float | None) -> None:
    """A driver that leaves an instance alone has nothing to do for it before its time."""
    if state.paused or state.ended:
        return
    for step in state.steps.values():
        idle = step.queue is None and step.status == "scheduled"
        assert not idle, f"step run {step.id} is left scheduled"
        assert step.queue is not None or step.status != "running", f"step run {step.id} is left"
    dues = [step.due_at for step in state.steps.values() if step.due_at is not None]
    dues += [wait.due_at for wait in state.waits.values() if wait.due_at is not None]
    assert not dues or delay is not None, f"nobody comes at {min(dues)}"
    told = {one.event for one in row.inbox.values() if one.kind == "event"}
    for key, wait in state.waits.items():
        shown = row.waits[key]
        if wait.kind == "event" and shown.get("condition") is None:
            left = [event.id for event in untaken(record, state, shown) if event.id in told]
            assert not left, f"told of events {left}, which wait {key} has not taken"
        _heard(record, row, key, wait)


def _heard(record: MemoryRecord, row: InstanceRow, key: Key, wait: Wait) -> None:
    told = {one.payload["ulid"] for one in row.inbox.values() if one.kind == "child"}
    unnoted = told & set(wait.instances) - wait.statuses.keys()
    left = sorted(ulid for ulid in unnoted if record.by_ulid[ulid].status in ENDED)
    assert not left, f"told of the ends of {left}, which wait {key} has not noted"
