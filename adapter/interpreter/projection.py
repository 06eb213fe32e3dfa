"""What entries do to the documented rows: the net change of each row, for one append.

The documented tables are the journal's projection. PostgreSQL silently drops the second change of
one row in one statement, so an append gets at most one insert or one update per row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from . import entries as kinds
from .messages import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .entries import Entry
    from .state import Key, State


class _At:
    """Stands for the append's own time, which only the database knows."""

    def __repr__(self) -> str:
        return "AT"


AT: Final = _At()


@dataclass(slots=True)
class Row:
    """The net change of one row: an insert, or an update of the columns named."""

    new: bool
    columns: dict[str, Any]


@dataclass(slots=True)
class Changes:
    """Everything one append writes beside the journal.

    Attributes:
        instance: Columns of the instance's row.
        steps: Step runs by id.
        waits: Waits by id.
        inbox: The result of each inbox row that is stamped, by id.
    """

    instance: dict[str, Any] = field(default_factory=dict)
    steps: dict[Key, Row] = field(default_factory=dict)
    waits: dict[Key, Row] = field(default_factory=dict)
    inbox: dict[Key, dict[str, Any]] = field(default_factory=dict)


DONE: Final = {"status": "done"}


def project(
    before: State, entries: Sequence[Entry], after: State, *, ulid: str, writer: str
) -> Changes:
    """Returns the net change of every row that the entries touch.

    Args:
        before: The state that the entries were decided in.
        entries: What is appended, in order.
        after: The state with the entries applied.
        ulid: The instance's public id, part of idempotency keys.
        writer: The token of the turn that appends.
    """
    changes = Changes()
    changes.instance = {
        "status": after.status,
        "current_node_id": after.current,
        "steps_count": after.steps_count,
    }
    open_steps = dict.fromkeys(before.steps)
    open_waits = dict.fromkeys(before.waits)
    for entry in entries:
        _project(changes, entry, ulid, writer, open_steps, open_waits)
    return changes


def _project(
    changes: Changes,
    entry: Entry,
    ulid: str,
    writer: str,
    open_steps: dict[Key, None],
    open_waits: dict[Key, None],
) -> None:
    data, kind = entry.data, entry.kind
    if (inbox := data.get("inbox")) is not None:
        changes.inbox[inbox] = data.get("result", DONE)
    if kind in _ENDS:
        _end(changes, entry, writer, open_steps, open_waits)
        return
    if kind == kinds.STARTED:
        changes.instance["started_at"] = AT
        return
    if entry.step is None:
        return
    if kind in _OPENS:
        open_steps[entry.step] = None
        _project_opening(changes, entry, entry.step, ulid)
        if kind == kinds.STEP_PASSED:
            del open_steps[entry.step]
        elif kind == kinds.WAIT_OPENED:
            open_waits[data["wait"]] = None
            _merge(changes.waits, data["wait"], True, _wait(entry))
        return
    open_steps.pop(entry.step, None)
    _merge(changes.steps, entry.step, False, _closed(entry))
    if kind in _SETTLES:
        open_waits.pop(data["wait"], None)
        _merge(changes.waits, data["wait"], False, _settled(entry, writer))


def _project_opening(changes: Changes, entry: Entry, step: Key, ulid: str) -> None:
    data, row = entry.data, entry.row
    columns = _opened(entry)
    new = entry.kind == kinds.STEP_SCHEDULED or bool(data.get("new"))
    if new:
        columns |= _identity(entry, ulid)
    if entry.kind == kinds.STEP_STARTED:
        columns |= {"claim_token": data["token"], "input": row.get("input")}
    elif entry.kind == kinds.STEP_PASSED:
        columns |= {"outcome": data["outcome"], "finished_at": AT}
        if "output" in row:
            columns["output"] = row["output"]
    _merge(changes.steps, step, new, columns)


def _settled(entry: Entry, writer: str) -> dict[str, Any]:
    settled = {
        "status": "fired" if entry.kind == kinds.WAIT_FIRED else "timed_out",
        "claim_token": writer,
        "claimed_at": AT,
        "fired_at": AT,
    }
    if entry.row.get("output") is not None:
        settled["payload"] = entry.row["output"]
    return settled


_OPENS = frozenset({kinds.STEP_SCHEDULED, kinds.STEP_STARTED, kinds.STEP_PASSED, kinds.WAIT_OPENED})
_SETTLES = frozenset({kinds.WAIT_FIRED, kinds.WAIT_TIMED_OUT})
_ENDS = frozenset({kinds.COMPLETED, kinds.FAILED, kinds.CANCELLED})

_OPEN_STATUS = {
    kinds.STEP_STARTED: "running",
    kinds.STEP_PASSED: "succeeded",
    kinds.WAIT_OPENED: "waiting",
}


def _identity(entry: Entry, ulid: str) -> dict[str, Any]:
    visit = entry.data.get("visit", 1)
    return {
        "node_id": entry.node,
        "node_type": entry.data.get("type", ""),
        "visit": visit,
        "attempt": entry.data.get("attempt", 1),
        "idempotency_key": f"wf:{ulid}:{entry.node}:{visit}",
    }


def _opened(entry: Entry) -> dict[str, Any]:
    if entry.kind != kinds.STEP_SCHEDULED:
        return {"status": _OPEN_STATUS[entry.kind], "started_at": AT}
    due = entry.data.get("due_at")
    if due is None:
        return {"status": "scheduled"}
    return {"status": "retrying", "scheduled_for": datetime.fromisoformat(due)}


def _closed(entry: Entry) -> dict[str, Any]:
    data, row = entry.data, entry.row
    if entry.kind == kinds.STEP_FAILED:
        columns = {
            "status": "failed",
            "error_code": data["code"],
            "error_message": clean(row.get("message", "")),
            "error_retryable": data.get("retryable", False),
        }
    elif entry.kind == kinds.STEP_LOST:
        message = clean(row.get("message", "its worker is gone"))
        columns = {"status": "lost", "error_code": "worker_lost", "error_message": message}
    else:
        columns = {"status": "succeeded", "outcome": data["outcome"]}
        if row.get("output") is not None:
            columns["output"] = row["output"]
    if data.get("final"):
        columns["outcome"] = kinds.FAILURE
    return {**columns, "finished_at": AT}


def _wait(entry: Entry) -> dict[str, Any]:
    data = entry.data
    due = data.get("due_at")
    return {
        "step_run_id": entry.step,
        "kind": data["kind"],
        "due_at": datetime.fromisoformat(due) if due else None,
        "event_key": data.get("event"),
        "match": data.get("match"),
        "condition": entry.row.get("condition"),
        "outcome": data.get("outcome"),
        "status": "pending",
    }


def _end(
    changes: Changes,
    entry: Entry,
    writer: str,
    open_steps: dict[Key, None],
    open_waits: dict[Key, None],
) -> None:
    changes.instance["ended_at"] = AT
    if entry.kind == kinds.FAILED:
        changes.instance |= {
            "failure_code": entry.data["code"],
            "failure_message": clean(entry.row.get("message", "")),
            "failed_node_id": entry.node,
        }
    for step in open_steps:
        _merge(changes.steps, step, False, {"status": "cancelled", "finished_at": AT})
    for wait in open_waits:
        settled = {"status": "cancelled", "claim_token": writer, "claimed_at": AT}
        _merge(changes.waits, wait, False, settled)
    open_steps.clear()
    open_waits.clear()


def _merge(rows: dict[Key, Row], key: Key, new: bool, columns: dict[str, Any]) -> None:
    row = rows.get(key)
    if row is None:
        rows[key] = Row(new, columns)
    else:
        row.columns.update(columns)
