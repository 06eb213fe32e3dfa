"""What entries do to the documented rows: the net change of each row, for one append.

The documented tables are the journal's projection. PostgreSQL silently drops the second change of
one row in one statement, so an append gets at most one insert or one update per row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from . import entries as kinds
from .children import orphaned
from .messages import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .children import Child
    from .entries import Entry
    from .state import Key, State


MAX_EVENT_KEY: Final = 191


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
        children: Instances to start, by the step run that starts them.
        orphans: Step runs whose children are to be cancelled.
    """

    instance: dict[str, Any] = field(default_factory=dict)
    steps: dict[Key, Row] = field(default_factory=dict)
    waits: dict[Key, Row] = field(default_factory=dict)
    inbox: dict[Key, dict[str, Any]] = field(default_factory=dict)
    children: dict[Key, Sequence[Child]] = field(default_factory=dict)
    orphans: list[Key] = field(default_factory=list)


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
    rows = _Open(dict.fromkeys(before.steps), {w.id: orphaned(w) for w in before.waits.values()})
    for entry in entries:
        _project(changes, entry, ulid, writer, rows)
    return changes


@dataclass(slots=True)
class _Open:
    """What is open after the entries so far.

    Attributes:
        steps: Step runs.
        waits: Waits, with the step runs whose children end with it.
    """

    steps: dict[Key, None]
    waits: dict[Key, tuple[Key, ...]]


def _project(changes: Changes, entry: Entry, ulid: str, writer: str, rows: _Open) -> None:
    data, kind = entry.data, entry.kind
    if (inbox := data.get("inbox")) is not None:
        changes.inbox[inbox] = data.get("result", DONE)
    if kind in _ENDS:
        _end(changes, entry, writer, rows)
        return
    if kind == kinds.STARTED:
        changes.instance["started_at"] = AT
    elif kind == kinds.RETRIED:
        changes.instance |= _UNFAILED
    if entry.step is None or kind == kinds.LINE_ENDED:
        return
    if kind in _OPENS:
        _open(changes, entry, entry.step, ulid, rows)
        return
    rows.steps.pop(entry.step, None)
    _merge(changes.steps, entry.step, False, _closed(entry))
    changes.orphans += data.get("orphans", ())
    if kind in _SETTLES:
        rows.waits.pop(data["wait"], None)
        _merge(changes.waits, data["wait"], False, _settled(entry, writer))
    elif kind == kinds.SCOPE_CLOSED:
        _cancel(changes, data.get("steps", ()), data.get("waits", ()), writer, rows)


def _open(changes: Changes, entry: Entry, step: Key, ulid: str, rows: _Open) -> None:
    data, kind = entry.data, entry.kind
    rows.steps[step] = None
    _project_opening(changes, entry, step, ulid)
    if "children" in entry.row:
        changes.children[step] = entry.row["children"]
    if kind == kinds.STEP_PASSED:
        del rows.steps[step]
    elif kind == kinds.WAIT_OPENED:
        rows.waits[data["wait"]] = (*data.get("family", ()), step) if data.get("children") else ()
        _merge(changes.waits, data["wait"], True, _wait(entry))


def _cancel(
    changes: Changes, steps: Iterable[Key], waits: Iterable[Key], writer: str, rows: _Open
) -> None:
    for step in steps:
        rows.steps.pop(step, None)
        _merge(changes.steps, step, False, {"status": "cancelled", "finished_at": AT})
    for wait in waits:
        rows.waits.pop(wait, None)
        settled = {"status": "cancelled", "claim_token": writer, "claimed_at": AT}
        _merge(changes.waits, wait, False, settled)


def _project_opening(changes: Changes, entry: Entry, step: Key, ulid: str) -> None:
    data, row = entry.data, entry.row
    columns = _opened(entry)
    new = bool(data.get("new")) or (entry.kind == kinds.STEP_SCHEDULED and not data.get("known"))
    if new:
        columns |= _identity(entry, ulid)
    if entry.kind == kinds.STEP_STARTED:
        columns |= {"claim_token": data["token"], "input": row.get("input")}
        if "lease" in data:
            columns["lease_until"] = datetime.fromisoformat(data["lease"])
    elif entry.kind == kinds.STEP_PASSED:
        columns |= {"outcome": data["outcome"], "finished_at": AT}
        if "output" in row:
            columns["output"] = row["output"]
    elif entry.kind == kinds.SCOPE_OPENED and row.get("input") is not None:
        columns["input"] = row["input"]
    _merge(changes.steps, step, new, columns)


def _settled(entry: Entry, writer: str) -> dict[str, Any]:
    if entry.kind == kinds.WAIT_FAILED:
        # What it waited for cannot come: it neither fired nor ran out of time.
        return {"status": "cancelled", "claim_token": writer, "claimed_at": AT}
    settled = {
        "status": "fired" if entry.kind == kinds.WAIT_FIRED else "timed_out",
        "claim_token": writer,
        "claimed_at": AT,
        "fired_at": AT,
    }
    if entry.row.get("output") is not None:
        settled["payload"] = entry.row["output"]
    return settled


_OPENS = frozenset(
    {
        kinds.STEP_SCHEDULED,
        kinds.STEP_STARTED,
        kinds.STEP_PASSED,
        kinds.WAIT_OPENED,
        kinds.SCOPE_OPENED,
    }
)
_SETTLES = frozenset({kinds.WAIT_FIRED, kinds.WAIT_TIMED_OUT, kinds.WAIT_FAILED})
_FAILS = frozenset({kinds.STEP_FAILED, kinds.WAIT_FAILED})
_ENDS = frozenset({kinds.COMPLETED, kinds.FAILED, kinds.CANCELLED})

_OPEN_STATUS = {
    kinds.STEP_STARTED: "running",
    kinds.STEP_PASSED: "succeeded",
    kinds.WAIT_OPENED: "waiting",
    kinds.SCOPE_OPENED: "waiting",
}
_UNFAILED: Final[dict[str, Any]] = {
    "failure_code": None,
    "failure_message": None,
    "failed_node_id": None,
    "ended_at": None,
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
    if entry.kind in _FAILS or (entry.kind == kinds.SCOPE_CLOSED and "code" in data):
        columns = {
            "status": "failed",
            "error_code": data["code"],
            "error_message": clean(row.get("message", "")),
            "error_retryable": data.get("retryable", False),
        }
        if row.get("output") is not None:
            columns["output"] = row["output"]
    elif entry.kind == kinds.STEP_LOST:
        message = clean(row.get("message", "its worker is gone"))
        columns = {"status": "lost", "error_code": "worker_lost", "error_message": message}
    else:
        columns = {"status": "succeeded", "outcome": data["outcome"]}
        for column in ("output", "resume_signal"):
            if row.get(column) is not None:
                columns[column] = row[column]
    if data.get("final") or entry.kind == kinds.SCOPE_CLOSED:
        columns["outcome"] = data.get("outcome", kinds.FAILURE)
    return {**columns, "finished_at": AT}


def _wait(entry: Entry) -> dict[str, Any]:
    data = entry.data
    due = data.get("due_at")
    return {
        "step_run_id": entry.step,
        "kind": data["kind"],
        "due_at": datetime.fromisoformat(due) if due else None,
        "event_key": data.get("event") or _signal_names(data),
        "match": {"instances": data["instances"]} if "instances" in data else data.get("match"),
        "condition": entry.row.get("condition"),
        "outcome": data.get("outcome"),
        "status": "pending",
    }


def _signal_names(data: Mapping[str, Any]) -> str | None:
    names = ", ".join(data.get("signals", ()))
    return names[:MAX_EVENT_KEY] or None


def _end(changes: Changes, entry: Entry, writer: str, rows: _Open) -> None:
    changes.instance["ended_at"] = AT
    if entry.kind == kinds.FAILED:
        changes.instance |= {
            "failure_code": entry.data["code"],
            "failure_message": clean(entry.row.get("message", "")),
            "failed_node_id": entry.node,
        }
    elif "code" in entry.data:
        changes.instance["failure_code"] = entry.data["code"]
    for step in entry.data.get("scopes", ()):
        rows.steps.pop(step, None)
        failed = {"status": "failed", "outcome": kinds.FAILURE, "error_code": entry.data["code"]}
        _merge(changes.steps, step, False, {**failed, "finished_at": AT})
    changes.orphans += [step for steps in rows.waits.values() for step in steps]
    _cancel(changes, list(rows.steps), list(rows.waits), writer, rows)


def _merge(rows: dict[Key, Row], key: Key, new: bool, columns: dict[str, Any]) -> None:
    row = rows.get(key)
    if row is None:
        rows[key] = Row(new, columns)
    else:
        row.columns.update(columns)
