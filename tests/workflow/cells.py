"""The table of cells: what is done, where in a graph, and what becomes of it.

Every cell is a document of its own. Its step ``x`` plays role "2", to which the fate of the cell
happens; where there is another visit to ``x``, or the step ``y`` beside it, that one plays role
"1" and is not concerned.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

WHATS = ("action", "wait", "delay", "queued", "child")
PLACES = ("main", "branch", "item", "body", "nested")
FATES = ("success", "failure", "timeout", "pause", "cancel", "retry")

LEFT_OUT: dict[str, str] = {}
"""Cells that make no sense, by id, with the reason."""

CONCURRENT = frozenset({"branch", "item", "nested"})
"""Places where role 1 is under way beside role 2."""

HANDLED = frozenset({"action", "queued"})
HELD = frozenset({"failure", "timeout", "pause", "cancel", "retry"})
"""Fates for which a child waits until it is told to go on."""

LONG = "PT1H"


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination."""

    what: str
    place: str
    fate: str

    @property
    def id(self) -> str:
        """Its name, also the key of its definition."""
        return f"{self.what}-{self.place}-{self.fate}"

    @property
    def event(self) -> str:
        """The key of the event that its waits wait for."""
        return f"news.{self.id}"

    @property
    def visit(self) -> int:
        """Which visit to ``x`` plays role 2."""
        return 1 if self.place in ("main", "branch") else 2

    @property
    def fails_on(self) -> bool:
        """Whether what is retried is an action that follows ``x``."""
        return self.fate == "retry" and self.what in ("wait", "delay")

    @property
    def stops(self) -> bool:
        """Whether a handler is asked to stop."""
        return self.fate == "cancel" and self.what in HANDLED

    @property
    def concurrent(self) -> bool:
        """Whether role 1 is under way beside role 2."""
        return self.place in CONCURRENT


CELLS = tuple(
    cell
    for cell in itertools.starmap(Cell, itertools.product(WHATS, PLACES, FATES))
    if cell.id not in LEFT_OUT
)

KID: dict[str, Any] = {
    "schema": "roundly.workflows.graph/v1",
    "key": "kid",
    "name": "A child",
    "nodes": [
        {"id": "trigger", "type": "trigger", "config": {"type": "manual"}},
        {
            "id": "pick",
            "type": "decision",
            "config": {"on": "${ trigger.hold ? 'hold' : 'go' }"},
        },
        {
            "id": "held",
            "type": "wait",
            "config": {"event": "kid.go", "match": {"cell": "${ trigger.cell }"}},
        },
        {
            "id": "act",
            "type": "action",
            "config": {
                "action": "act",
                "input": {
                    "role": "${ trigger.role }",
                    "fate": "${ trigger.fate }",
                    "cell": "${ trigger.cell }",
                },
            },
        },
        {"id": "done", "type": "end", "config": {"output": "${ steps.act.output }"}},
    ],
    "edges": [
        {"from": "trigger", "to": "pick"},
        {"from": "pick", "to": "held", "on": "hold"},
        {"from": "pick", "to": "act"},
        {"from": "held", "to": "act"},
        {"from": "act", "to": "done"},
    ],
}


def document(cell: Cell) -> dict[str, Any]:
    """The graph of a cell."""
    nodes, edges = _PLACED[cell.place](cell)
    return {
        "schema": "roundly.workflows.graph/v1",
        "key": cell.id,
        "name": cell.id,
        "nodes": [
            {"id": "trigger", "type": "trigger", "config": {"type": "manual"}},
            *nodes,
            {"id": "after", "type": "set", "config": {"values": {"after": True}}},
        ],
        "edges": [{"from": before, "to": after} for before, after in edges],
    }


_Part = tuple[list[dict[str, Any]], list[tuple[str, str]]]


def _main(cell: Cell) -> _Part:
    nodes, edges = _line(cell, "'2'")
    return nodes, [("trigger", "x"), *edges, (nodes[-1]["id"], "after")]


def _branch(cell: Cell) -> _Part:
    nodes, edges = _line(cell, "'2'")
    fork = {"id": "fork", "type": "parallel", "config": {"branches": {"left": "x", "right": "y"}}}
    return [fork, *nodes, step(cell, "y", "'1'")], [("trigger", "fork"), *edges, ("fork", "after")]


def _item(cell: Cell) -> _Part:
    nodes, edges = _line(cell, "item")
    return [_EACH, *nodes], [("trigger", "each"), *edges, ("each", "after")]


def _body(cell: Cell) -> _Part:
    nodes, edges = _line(cell, "state.round")
    config = {"body": "count", "until": "state.round == '2'"}
    loop = {"id": "loop", "type": "repeat", "config": config}
    values = {"round": "${ has(state.round) ? '2' : '1' }"}
    count = {"id": "count", "type": "set", "config": {"values": values}}
    return [loop, count, *nodes], [
        ("trigger", "loop"),
        ("count", "x"),
        *edges,
        ("loop", "after"),
    ]


def _nested(cell: Cell) -> _Part:
    nodes, edges = _line(cell, "item")
    config = {"branches": {"left": "each", "right": "y"}}
    fork = {"id": "fork", "type": "parallel", "config": config}
    return [fork, _EACH, *nodes, step(cell, "y", "'1'")], [
        ("trigger", "fork"),
        *edges,
        ("fork", "after"),
    ]


_EACH = {"id": "each", "type": "for_each", "config": {"items": ["1", "2"], "body": "x"}}
_PLACED = {"main": _main, "branch": _branch, "item": _item, "body": _body, "nested": _nested}


def _line(cell: Cell, role: str) -> _Part:
    """``x``, and what follows it on its own line."""
    nodes = [step(cell, "x", role)]
    if not cell.fails_on:
        return nodes, []
    mark = {"id": "mark", "type": "set", "config": {"values": {"marked": True}}}
    return [*nodes, mark, _act(cell, "check", role)], [("x", "mark"), ("mark", "check")]


def step(cell: Cell, node: str, role: str) -> dict[str, Any]:
    """The step of a cell; ``role`` is the expression that gives the role that it plays."""
    match cell.what:
        case "action":
            return _act(cell, node, role)
        case "queued":
            acting = _act(cell, node, role)
            timeout = "PT8S" if cell.fate == "timeout" else "PT30S"
            config = {**acting["config"], "heartbeat": "PT10S"}
            return {**acting, "config": config, "timeout": timeout}
        case "wait":
            match = f"${{ {role} }}"
            if cell.fate == "failure":
                match = f"${{ {role} == '2' ? string(1 / 0) : {role} }}"
            config = {"event": cell.event, "match": {"role": match}}
            return {"id": node, "type": "wait", "config": {**config, **_deadline(cell, role)}}
        case "delay":
            return {"id": node, "type": "delay", "config": _pause(cell, role)}
        case _:
            held = cell.fate in HELD
            values = {
                "role": f"${{ {role} }}",
                "fate": cell.fate if cell.fate in ("failure", "retry") else "success",
                "cell": cell.id,
                "hold": f"${{ {role} == '2' }}" if held else False,
            }
            config = {"workflow": "kid", "input": values, **_deadline(cell, role)}
            return {"id": node, "type": "start_workflow", "config": config}


def _act(cell: Cell, node: str, role: str) -> dict[str, Any]:
    values = {"role": f"${{ {role} }}", "fate": cell.fate, "cell": cell.id}
    return {
        "id": node,
        "type": "action",
        "config": {"action": "act", "input": values},
        "timeout": "PT1S" if cell.fate == "timeout" else "PT2S",
    }


def _deadline(cell: Cell, role: str) -> dict[str, Any]:
    if cell.fate != "timeout":
        return {}
    return {"timeout": f"${{ {role} == '2' ? 'PT0.5S' : '{LONG}' }}"}


def _pause(cell: Cell, role: str) -> dict[str, Any]:
    """A delay: its own time is all the time-out that it has, so that one is up at once."""
    if cell.fate == "timeout":
        return {"until": "2020-01-01T00:00:00Z"}
    second = {
        "failure": "soon",
        "pause": "PT8S",
        "cancel": LONG,
    }.get(cell.fate, "PT0.2S")
    first = "'PT0.1S'"
    if cell.fate == "retry" and cell.concurrent:
        # Still open when role 2 fails; entered again, it is short.
        first = f"has(state.marked) ? 'PT0.1S' : '{LONG}'"
    return {"for": f"${{ {role} == '2' ? '{second}' : ({first}) }}"}
