"""The steps of an instance as a table, for the room that the terminal has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapter.cli.columns import MIDDLE, Column, listing, stamp
from adapter.cli.output import coded, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.table import Table

    from adapter.cli.tree import Branch


def steps_of(tree: Sequence[Branch], width: int) -> Table:
    """Returns the table of the rows of a tree.

    Args:
        tree: At least one row.
        width: Of the terminal.
    """
    longest = max(len(branch.label) for branch in tree)
    # The ulid of a child has to be whole, to be copied.
    whole = longest <= width // 2 or any(branch.child for branch in tree)
    columns: list[Column[Branch]] = [
        Column("node", _label, whole=whole, least=10),
        Column("type", lambda branch: _of(branch).type, shown_from=MIDDLE),
        *_counts(tree),
        Column("status", lambda branch: _of(branch).status, whole=True),
        *_outcomes(tree, width),
        Column(
            "started",
            lambda branch: stamp(_of(branch).started, width),
            whole=True,
            shown_from=MIDDLE,
        ),
        Column("took", lambda branch: _of(branch).took, whole=True),
        Column("output or error", lambda branch: _told(branch, width), least=16),
    ]
    return listing(columns, tree, width)


def _counts(tree: Sequence[Branch]) -> list[Column[Branch]]:
    """Which visit and which attempt a step is, where there are several."""
    steps = [branch.step for branch in tree if branch.step is not None]
    visits = {(step.line, step.node, step.visit) for step in steps}
    counts: list[Column[Branch]] = []
    # Items and iterations are told apart by their lines.
    if len({(line, node) for line, node, _ in visits}) < len(visits):
        counts.append(Column("visit", lambda branch: _of(branch).visit, whole=True))
    if any(step.attempt > 1 for step in steps):
        counts.append(Column("attempt", lambda branch: _of(branch).attempt, whole=True))
    return counts


def _outcomes(tree: Sequence[Branch], width: int) -> list[Column[Branch]]:
    """What came out; where there is little room, only if the status does not say it already."""
    said = {branch.step.outcome for branch in tree if branch.step is not None}
    if width < MIDDLE and said <= {None, "success", "failure"}:
        return []
    return [Column("outcome", lambda branch: _of(branch).outcome, least=7)]


def _label(branch: Branch) -> str:
    return branch.label


@dataclass(frozen=True, slots=True)
class _Told:
    type: str = ""
    visit: str = ""
    attempt: str = ""
    status: str = ""
    outcome: str | None = ""
    started: datetime | None = None
    took: str = ""


def _of(branch: Branch) -> _Told:
    step, child = branch.step, branch.child
    if child is not None:
        took = _took(child.started_at, child.ended_at)
        return _Told(child.key, status=child.status, started=child.started_at, took=took)
    if step is None:
        return _Told()
    return _Told(
        step.type,
        str(step.visit),
        str(step.attempt),
        step.status,
        step.outcome,
        step.started_at,
        _took(step.started_at, step.finished_at),
    )


def _told(branch: Branch, width: int) -> str:
    step, most = branch.step, 60 if width >= MIDDLE else 36
    if step is None:
        return ""
    if step.error_code is not None:
        return shorten(coded(step.error_code, step.error_message), 2 * most)
    if step.status == "running" and step.progress_at is not None:
        return f"so far: {shorten(step.progress, 2 * most)}"
    return shorten(step.output, most)


def _took(began: datetime | None, ended: datetime | None) -> str:
    if began is None or ended is None:
        return ""
    seconds = (ended - began).total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, size, most in (("s", 1, 100), ("min", 60, 100), ("h", 3_600, 48)):
        if seconds < size * most:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86_400:.1f} d"
