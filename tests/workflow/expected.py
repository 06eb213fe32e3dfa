"""What the rows of a cell have to be: said from what users were told, not from what was seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.workflow.cells import Cell

Run = tuple[int, int, str, str | None, str | None]
"""visit, attempt, status, outcome, error_code"""

End = tuple[str, str | None, str | None]
"""status, outcome, error_code"""

DONE: End = ("succeeded", "success", None)
CANCELLED: End = ("cancelled", None, None)
BY_PARENT = "cancelled_by_parent"

CODES = {
    ("action", "failure"): "broken",
    ("queued", "failure"): "broken",
    ("wait", "failure"): "expression_failed",
    ("delay", "failure"): "expression_failed",
    ("child", "failure"): "child_failed",
    ("action", "timeout"): "step_timed_out",
    ("queued", "timeout"): "step_timed_out",
    ("action", "retry"): "broken",
    ("queued", "retry"): "broken",
    ("wait", "retry"): "broken",
    ("delay", "retry"): "broken",
    ("child", "retry"): "child_failed",
}
"""With which code the instance fails, for good or until it is retried."""

KINDS = {"wait": "event", "delay": "timer", "child": "instances"}


@dataclass(slots=True)
class Expected:
    """The rows of one cell.

    Attributes:
        steps: Step runs by node, each in order.
        line: Nodes of the main line, in the order of their step runs.
        waits: (node, visit, attempt, kind, status), sorted.
        children: (status, failure_code) by the node and visit that started them, in order.
        commands: What the inbox holds beside events and ended children.
    """

    status: str
    code: str | None = None
    failed_node: str | None = None
    steps: dict[str, list[Run]] = field(default_factory=dict)
    line: list[str] = field(default_factory=list)
    waits: list[tuple[str, int, int, str, str]] = field(default_factory=list)
    children: dict[tuple[str, int], list[tuple[str, str | None]]] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)


def expected(cell: Cell) -> Expected:
    """The rows of a cell at its end."""
    code = CODES.get((cell.what, cell.fate))
    status = "completed"
    if cell.fate == "cancel":
        status = "cancelled"
    elif code is not None and cell.fate != "retry":
        status = "failed"
    failed = status == "failed"
    result = Expected(status, code if failed else None, "x" if failed else None)
    result.commands = ["start", *_COMMANDS.get(cell.fate, [])]
    result.steps["trigger"] = [(1, 1, *DONE)]
    first = _first(cell)
    _ordinary(cell, result, first)
    _concerned(cell, result, code)
    _waits(cell, result)
    _around(cell, result, code)
    if status == "completed":
        result.steps["after"] = [(1, 1, *DONE)]
        result.line.append("after")
    return result


_COMMANDS = {"pause": ["pause", "resume"], "cancel": ["cancel"], "retry": ["retry"]}


def _first(cell: Cell) -> str:
    """What becomes of role 1: ``done``, ``cut`` off by a failure, cut and ``again``."""
    if not cell.concurrent or cell.what not in ("wait", "delay"):
        return "done"
    return {"failure": "cut", "retry": "again"}.get(cell.fate, "done")


def _ordinary(cell: Cell, result: Expected, first: str) -> None:
    visits = [("x", 1)] if cell.visit == 2 else []
    if cell.place in ("branch", "nested"):
        visits.append(("y", 1))
    if cell.place == "branch" and first == "cut":
        # The left branch fails as it is entered, before the right one is.
        visits.remove(("y", 1))
    for node, visit in visits:
        runs: list[Run] = [(visit, 1, *(DONE if first == "done" else CANCELLED))]
        if first == "again":
            runs.append((visit, 2, *DONE))
        result.steps.setdefault(node, []).extend(runs)
        if cell.what == "child":
            result.children[(node, visit)] = [("completed", None)]
        if cell.fails_on and node == "x":
            # In the order in which they come to it.
            order = 1 if cell.place == "body" else 2
            for follower in ("mark", "check"):
                result.steps.setdefault(follower, []).append((order, 1, *DONE))


def _concerned(cell: Cell, result: Expected, code: str | None) -> None:
    runs: list[Run] = []
    visit = cell.visit
    failed = ("failed", "failure", code)
    match cell.fate:
        case "failure":
            runs = [(visit, 1, *failed)]
        case "timeout":
            if code is not None:
                runs = [(visit, 1, *failed)]
            elif cell.what == "delay":
                runs = [(visit, 1, *DONE)]
            else:
                runs = [(visit, 1, "succeeded", "timed_out", None)]
        case "cancel":
            runs = [(visit, 1, *CANCELLED)]
        case "retry" if not cell.fails_on:
            runs = [(visit, 1, *failed), (visit, 2, *DONE)]
        case _:
            runs = [(visit, 1, *DONE)]
    result.steps.setdefault("x", []).extend(runs)
    if cell.fails_on:
        order = 2 if cell.place == "body" else 1
        check: list[Run] = [(order, 1, *failed), (order, 2, *DONE)]
        result.steps["check"] = sorted([*result.steps.get("check", []), *check])
        result.steps["mark"] = sorted([*result.steps.get("mark", []), (order, 1, *DONE)])
    if cell.what == "child":
        result.children[("x", visit)] = _children(cell)


def _waits(cell: Cell, result: Expected) -> None:
    """Every step run that has waited has its wait."""
    for node in ("x", "y"):
        for visit, attempt, _, outcome, code in result.steps.get(node, []):
            if cell.what not in KINDS or code == "expression_failed":
                continue
            settled = "fired" if outcome == "success" else "cancelled"
            if outcome == "timed_out":
                settled = "timed_out"
            result.waits.append((node, visit, attempt, KINDS[cell.what], settled))


def _children(cell: Cell) -> list[tuple[str, str | None]]:
    match cell.fate:
        case "failure":
            return [("failed", "broken")]
        case "timeout" | "cancel":
            return [("cancelled", BY_PARENT)]
        case "retry":
            return [("failed", "broken"), ("completed", None)]
        case _:
            return [("completed", None)]


def _around(cell: Cell, result: Expected, code: str | None) -> None:
    """The structure nodes around the step."""
    owners = {
        "main": [],
        "branch": ["fork"],
        "item": ["each"],
        "body": ["loop"],
        "nested": ["fork", "each"],
    }[cell.place]
    runs: list[Run] = [(1, 1, *DONE)]
    if result.status == "cancelled":
        runs = [(1, 1, *CANCELLED)]
    elif code is not None:
        runs = [(1, 1, "failed", "failure", code)]
        if cell.fate == "retry":
            runs.append((1, 2, *DONE))
    for owner in owners:
        result.steps[owner] = list(runs)
    first = owners[0] if owners else "x"
    result.line = ["trigger", *[first] * len(result.steps[first])]
    if not owners and cell.fails_on:
        result.line += ["mark", "check", "check"]
    if cell.place == "body":
        result.steps["count"] = [(1, 1, *DONE), (2, 1, *DONE)]
