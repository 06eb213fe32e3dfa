"""What must hold after every append, whoever wrote it and whatever went wrong before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.interpreter.apply import apply
from adapter.interpreter.state import State

if TYPE_CHECKING:
    from adapter.testing.record import MemoryRecord

OPEN = frozenset({"scheduled", "retrying", "running", "waiting"})


class Broken(AssertionError):
    """An invariant does not hold."""


class Invariants:
    """Checks the record after each append.

    Args:
        record: The rows.
    """

    def __init__(self, record: MemoryRecord) -> None:
        self._record = record
        self._states: dict[int, State] = {}
        self._closed: dict[Any, tuple[Any, ...]] = {}
        self._succeeded: dict[Any, Any] = {}
        self._open: dict[int, set[Any]] = {}
        record.checks.append(self.check)

    def check(self, instance: int) -> None:
        """Checks one instance, against its own past and against its rows.

        Raises:
            Broken: Something does not hold.
        """
        row, journal = self._record.instances[instance], self._record.journals[instance]
        state = self._states.get(instance, State())
        for one in journal[state.seq :]:
            state = apply(state, one.entry)
        self._states[instance] = state
        self._say(row.lock_version == len(journal) == state.seq, instance, "the journal has a gap")
        self._say(row.columns["status"] == state.status, instance, "row and fold tell two statuses")
        touched = self._open.get(instance, set()) | set(state.steps)
        steps = {
            key: step
            for key, step in self._record.steps.items()
            if step["instance"] == instance and (step["status"] in OPEN or key in touched)
        }
        self._open[instance] = set(state.steps)
        for key, step in steps.items():
            self._step(instance, state, key, step)
        waits = {
            key
            for key, wait in self._record.waits.items()
            if wait["instance"] == instance and wait["status"] == "pending"
        }
        self._say(waits == set(state.waits), instance, "open waits differ")

    def _step(self, instance: int, state: State, key: Any, step: dict[str, Any]) -> None:
        known = state.steps.get(key)
        if step["status"] in OPEN:
            same = known is not None and known.status == step["status"]
            self._say(same, instance, f"step run {key} is {step['status']}, the fold has {known}")
            self._say(key not in self._closed, instance, f"step run {key} was open again")
            return
        self._say(known is None, instance, f"step run {key} is open in the fold alone")
        ended = (step["status"], step.get("outcome"), step.get("error_code"))
        before = self._closed.setdefault(key, ended)
        self._say(before == ended, instance, f"step run {key} went from {before} to {ended}")
        if step["status"] == "succeeded":
            visit = (instance, step["node_id"], step["visit"])
            winner = self._succeeded.setdefault(visit, key)
            self._say(winner == key, instance, f"{visit} succeeded twice")

    def at_end(self) -> None:
        """Checks what must hold when everything has come to rest.

        Raises:
            Broken: Something was lost.
        """
        for told in self._record.inbox.values():
            self._say(told.applied, told.instance, f"inbox row {told.id} ({told.kind}) was lost")
        for number, row in self._record.instances.items():
            status = row.columns["status"]
            ended = status in ("completed", "failed", "cancelled")
            self._say(ended, number, f"it can end and is {status}")

    def _say(self, holds: bool, instance: int, what: str) -> None:
        if not holds:
            ulid = self._record.instances[instance].ulid
            raise Broken(f"instance {ulid.lstrip('0')}: {what}")
