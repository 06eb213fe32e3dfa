"""What must hold of the rows of a cell, whatever drove it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from adapter.interpreter.apply import apply
from adapter.interpreter.entries import Entry
from adapter.interpreter.projection import project
from adapter.interpreter.state import State
from tests.workflow.expected import DONE, expected

if TYPE_CHECKING:
    from typing import Any

    from tests.workflow.cells import Cell
    from tests.workflow.matrix import Outcome
    from tests.workflow.recorded import Recorded

OPEN_STEPS = {"scheduled", "running", "waiting", "retrying"}


def check_cell(cell: Cell, outcome: Outcome) -> None:
    """Asserts every row of a cell."""
    assert outcome.error is None
    recorded = outcome.recorded
    assert recorded is not None
    wanted = expected(cell)
    instance = recorded.instance
    assert (instance["status"], instance["failure_code"], instance["failed_node_id"]) == (
        wanted.status,
        wanted.code,
        wanted.failed_node,
    )
    assert _steps(recorded) == wanted.steps
    main = [row["node_id"] for row in recorded.steps if row["node_id"] in wanted.line]
    assert main == wanted.line
    assert _waits(recorded) == sorted(wanted.waits)
    commands = [row["kind"] for row in recorded.inbox if row["kind"] not in ("event", "child")]
    assert commands == wanted.commands
    _check_children(cell, outcome)
    for one in (recorded, *outcome.children):
        check_record(one)
    _check_calls(outcome)
    assert outcome.stopped or not cell.stops
    if cell.fate == "pause":
        _check_pause(cell, outcome)


def _steps(recorded: Recorded) -> dict[str, list[tuple[Any, ...]]]:
    steps: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in recorded.steps:
        steps[row["node_id"]].append(
            (row["visit"], row["attempt"], row["status"], row["outcome"], row["error_code"])
        )
    # Visits that are under way together go on in any order; their attempts do not.
    return {node: sorted(rows, key=lambda run: run[0]) for node, rows in steps.items()}


def _waits(recorded: Recorded) -> list[tuple[Any, ...]]:
    steps = {row["id"]: row for row in recorded.steps}
    waits = []
    for row in recorded.waits:
        step = steps[row["step_run_id"]]
        waits.append((step["node_id"], step["visit"], step["attempt"], row["kind"], row["status"]))
    return sorted(waits)


def _check_children(cell: Cell, outcome: Outcome) -> None:
    assert outcome.recorded is not None
    parent = outcome.recorded
    steps = {row["id"]: row for row in parent.steps}
    children: dict[tuple[str, int], list[tuple[str, str | None]]] = defaultdict(list)
    for child in outcome.children:
        row = child.instance
        assert (row["depth"], row["root_instance_id"]) == (1, parent.instance["id"])
        step = steps[row["parent_step_run_id"]]
        children[step["node_id"], step["visit"]].append((row["status"], row["failure_code"]))
    assert children == expected(cell).children


def check_record(recorded: Recorded) -> None:
    """Asserts what holds of every instance that has ended."""
    instance, state = recorded.instance, recorded.state
    assert [row["seq"] for row in recorded.journal] == [*range(1, instance["lock_version"] + 1)]
    assert (state.seq, state.status) == (instance["lock_version"], instance["status"])
    assert (state.steps_count, state.current) == (
        instance["steps_count"],
        instance["current_node_id"],
    )
    assert state.ended
    assert instance["ended_at"] is not None
    assert not [row for row in recorded.steps if row["status"] in OPEN_STEPS]
    assert all(row["finished_at"] is not None for row in recorded.steps)
    assert not [row for row in recorded.waits if row["status"] == "pending"]
    assert not state.steps
    assert not state.waits
    assert not state.lines
    for row in recorded.inbox:
        assert row["applied_at"] is not None
        late = row["kind"] == "child" and row["result"].get("reason") == "ended"
        assert late or row["result"] == {"status": "done"}
    _check_projection(recorded)
    _check_writers(recorded)


def _check_projection(recorded: Recorded) -> None:
    """The rows are what the journal says: each entry projected again gives the same columns."""
    state = State()
    columns: dict[Any, dict[str, Any]] = {}
    waits: dict[Any, dict[str, Any]] = {}
    for row in recorded.journal:
        entry = Entry(row["kind"], row["node_id"], row["step_run_id"], row["data"])
        after = apply(state, entry)
        changes = project(state, [entry], after, ulid=recorded.instance["ulid"], writer="")
        for key, change in changes.steps.items():
            columns.setdefault(key, {}).update(change.columns)
        for key, change in changes.waits.items():
            waits.setdefault(key, {}).update(change.columns)
        state = after
    assert columns.keys() == {row["id"] for row in recorded.steps}
    for row in recorded.steps:
        for name in ("status", "node_id", "visit", "attempt", "outcome", "error_code"):
            assert row[name] == columns[row["id"]].get(name), (row["node_id"], name)
    assert {row["id"]: row["status"] for row in recorded.waits} == {
        key: wait["status"] for key, wait in waits.items()
    }


def _check_writers(recorded: Recorded) -> None:
    """What was appended together, at one moment, has one writer."""
    writers: dict[Any, set[str]] = defaultdict(set)
    for row in recorded.journal:
        writers[row["at"]].add(row["writer"])
    assert all(len(writer) == 1 for writer in writers.values())


def _check_calls(outcome: Outcome) -> None:
    """Each attempt that began called its handler once."""
    assert outcome.recorded is not None
    began: Counter[int] = Counter()
    for one in (outcome.recorded, *outcome.children):
        began.update(row["step_run_id"] for row in one.journal if row["kind"] == "step_started")
    assert outcome.calls == began


def _check_pause(cell: Cell, outcome: Outcome) -> None:
    """What came while it was paused was written down, and led to nothing."""
    paused = outcome.paused
    assert paused is not None
    assert (paused.instance["status"], paused.state.paused) == ("paused", True)
    (run,) = [r for r in paused.steps if (r["node_id"], r["visit"]) == ("x", cell.visit)]
    after = [row["status"] for row in paused.steps if row["node_id"] == "after"]
    if cell.what in ("action", "queued"):
        assert (run["status"], run["outcome"], run["error_code"]) == DONE
        assert after == ["scheduled"]
    else:
        assert run["status"] == "waiting"
        assert after == []
        (wait,) = [row for row in paused.waits if row["step_run_id"] == run["id"]]
        assert wait["status"] == "pending"
