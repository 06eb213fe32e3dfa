"""What must hold after every append, whoever wrote it and whatever went wrong before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import apply
from adapter.interpreter.state import ENDED, State
from adapter.testing import rules
from adapter.testing.projected import Projected
from adapter.testing.rules import Broken, Moment

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection

    from adapter.interpreter.state import Key
    from adapter.testing.record import MemoryRecord
    from adapter.testing.rows import InstanceRow

ALL_ROWS = 16
"""Of so many appends of an instance one compares all its rows, the others what they touched."""


@dataclass(slots=True)
class _Known:
    """What was seen of one instance so far."""

    states: list[State] = field(default_factory=lambda: [State()])
    rows: Projected = field(default_factory=Projected)
    closed: dict[Key, dict[str, Any]] = field(default_factory=dict)
    succeeded: set[tuple[str, int]] = field(default_factory=set)
    applied: set[Key] = field(default_factory=set)
    writers: list[str] = field(default_factory=list)
    touched: set[Key] = field(default_factory=set)
    appends: int = 0


class Invariants:
    """Checks an instance after each append to it, against its own past and against its rows.

    Args:
        record: The rows.
        counts: What has happened, by name.
    """

    def __init__(self, record: MemoryRecord, counts: Counter[str]) -> None:
        self._record = record
        self._counts = counts
        self._known: dict[int, _Known] = {}
        self._delivered: dict[str, set[int]] = {}
        record.checks.append(self.check)

    def check(self, row: InstanceRow) -> None:
        """Checks one instance.

        Raises:
            Broken: Something does not hold.
        """
        known = self._known.setdefault(row.id, _Known())
        try:
            self._fold(row, known)
            known.appends += 1
            every = known.appends % ALL_ROWS == 0 or known.states[-1].ended
            self._rows(row, known, None if every else known.touched)
        except AssertionError as error:
            raise Broken(f"instance {row.ulid}, seq {row.lock_version}: {error}") from error

    def _fold(self, row: InstanceRow, known: _Known) -> None:
        """Journal without a gap; each entry may follow; the fold goes on."""
        before = state = known.states[-1]
        fresh = row.journal[state.seq :]
        known.touched = set()
        _say(bool(fresh), "the journal did not grow")
        rules.not_overtaken(known.writers, fresh[0].writer)
        for one in fresh:
            _say(one.seq == state.seq + 1, f"entry {one.seq} follows entry {state.seq}")
            entry = one.entry
            after = apply(state, entry)
            if entry.kind == kinds.SNAPSHOT:
                _say(after == replace(state, seq=one.seq), "the snapshot is not the state")
            moment = Moment(self._record, row, state, entry, one.writer, known.writers)
            rules.check(moment)
            self._inbox(row, known, moment)
            self._count(moment)
            step = moment.step
            if entry.kind == kinds.STEP_SUCCEEDED and step is not None:
                visit = (step.node, step.visit)
                _say(visit not in known.succeeded, f"{visit} succeeded twice")
                known.succeeded.add(visit)
            known.touched |= known.rows.add(state, entry, after, row.ulid, one.writer, one.at)
            state = after
            known.states.append(state)
        rules.let_go(self._record, before, state)
        if not known.writers or known.writers[-1] != fresh[0].writer:
            known.writers.append(fresh[0].writer)
        _say(row.lock_version == len(row.journal) == state.seq, "the journal has a gap")
        _say(row.status == state.status, f"the row is {row.status}, the fold {state.status}")

    def _inbox(self, row: InstanceRow, known: _Known, moment: Moment) -> None:
        """What is stamped is applied, what is applied is stamped, and both once."""
        inbox = moment.entry.data.get("inbox")
        if inbox is None:
            return
        _say(inbox not in known.applied, f"inbox row {inbox} was applied twice")
        known.applied.add(inbox)
        told = row.inbox.get(int(inbox))
        _say(told is not None and told.applied, f"inbox row {inbox} was applied and not stamped")
        if told is not None:
            rules.applied_as_told(moment.entry, told)

    def _rows(self, row: InstanceRow, known: _Known, touched: set[Key] | None) -> None:
        """Documented rows = projection of the journal, open rows = fold, closed rows stay."""
        state = known.states[-1]
        stamped = len(row.inbox) - len(row.unapplied)
        _say(stamped == len(known.applied), "an inbox row was stamped and not applied")
        for difference in known.rows.differences(row, touched):
            raise AssertionError(difference)
        opened = {k for k, s in known.rows.steps.items() if s["status"] in rules.OPEN}
        _say(opened == state.steps.keys(), "open step runs of rows and fold differ")
        for key, step in state.steps.items():
            shown = row.steps[key]["status"]
            _say(shown == step.status, f"step run {key} is {shown}, the fold has {step.status}")
        waits = {k for k, w in known.rows.waits.items() if w["status"] == "pending"}
        _say(waits == state.waits.keys(), "open waits of rows and fold differ")
        self._closed(row, known, row.steps.keys() if touched is None else touched)

    @staticmethod
    def _closed(row: InstanceRow, known: _Known, keys: Collection[Key]) -> None:
        for key in keys:
            step = row.steps.get(key)
            if step is None:
                continue
            rules.in_order(step)
            if step["status"] not in rules.OPEN:
                before = known.closed.setdefault(key, dict(step))
                _say(before == step, f"step run {key} had ended as {before}, and is now {step}")

    def live(self, ulid: str, state: State) -> None:
        """Checks the state that a process works on.

        Raises:
            Broken: It is not what the journal folds to at its seq.
        """
        row = self._record.by_ulid.get(ulid)
        if row is None or not state.seq:
            return
        states = self._known[row.id].states
        if state.seq >= len(states) or states[state.seq] != state:
            raise Broken(f"instance {ulid}: a live state is not the fold at seq {state.seq}")

    def poked(self, ulid: str) -> None:
        """Notes that a driver was told to look: what is there now may not be left lying."""
        row = self._record.by_ulid[ulid]
        self._delivered.setdefault(ulid, set()).update(row.unapplied)

    def left_alone(self, ulid: str, delay: float | None, *, alone: bool) -> None:
        """Checks an instance that its driver leaves until the next poke, or for a time.

        Args:
            ulid: The instance.
            delay: Seconds until the driver looks by itself; None for never.
            alone: Whether nobody else was at work on it during the driver's turn.

        Raises:
            Broken: Something is left to do of which the driver had been told.
        """
        row = self._record.by_ulid[ulid]
        delivered = self._delivered.setdefault(ulid, set())
        delivered &= row.unapplied.keys()
        try:
            _say(not delivered, f"poked for inbox rows {sorted(delivered)}, which are left lying")
            known = self._known.get(row.id)
            if alone and known is not None and not row.unapplied:
                rules.nothing_left(self._record, row, known.states[-1], delay)
        except AssertionError as error:
            raise Broken(f"instance {ulid}, left alone: {error}") from error

    def at_end(self) -> None:
        """Checks what must hold when everything has come to rest.

        Raises:
            Broken: Something was lost.
        """
        for row in self._record.instances.values():
            left = sorted(row.unapplied)
            ended = row.status in ENDED
            if left or not ended:
                raise Broken(
                    f"instance {row.ulid}: it can end and is {row.status}; inbox rows {left} are"
                    " left"
                )
            for difference in self._known[row.id].rows.differences(row):
                raise Broken(f"instance {row.ulid}, at the end: {difference}")

    def _count(self, moment: Moment) -> None:
        entry = moment.entry
        self._counts[f"entry {entry.kind}"] += 1
        if entry.kind == kinds.STEP_LOST:
            queued = moment.step is not None and moment.step.queue is not None
            self._counts[f"{'queued' if queued else 'inline'} steps taken over"] += 1
        if entry.kind == kinds.STEP_SCHEDULED and "due_at" in entry.data:
            self._counts["back-offs"] += 1
        if entry.kind == kinds.WAIT_FIRED and "event" in entry.data:
            event = self._record.events[int(entry.data["event"])]
            early = event.at < moment.row.waits[entry.data["wait"]]["created_at"]
            self._counts["events before their waits" if early else "events after their waits"] += 1
        result = entry.data.get("result") or {}
        if "inbox" in entry.data:
            kind = entry.data.get("kind", entry.kind)
            how = "refused" if result.get("status") == "refused" else "done"
            self._counts[f"{kind} {how}"] += 1


def _say(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)
