"""The graphs that ``graphs`` measures: chains, branches, items, queued steps, events, children."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

STEP: Final = "benchmark.step"
QUEUED: Final = "benchmark.queued"
EVENT: Final = "benchmark.event"
WIDE_EVENT: Final = "benchmark.wide"
CHILD: Final = "benchmark.graph.child"


@dataclass(frozen=True, slots=True)
class Shape:
    """One graph and how it is loaded.

    Attributes:
        name: How the table calls it.
        about: What its instances do.
        document: The graph document.
        steps: Handlers that one instance runs, its children's included.
        instances: How many are run in one round.
        at_once: How many of them at a time.
        events: How many events each of them waits for, one after the other.
    """

    name: str
    about: str
    document: dict[str, Any]
    steps: int
    instances: int
    at_once: int
    events: int = 0


def shapes() -> list[Shape]:
    """All shapes, the plain chain first: what the others are compared with."""
    return [
        Shape("chain", "20 actions in a row", _chain("chain", 20), 20, 40, 10),
        Shape("parallel", "4 branches of 5 actions, joined", _parallel(), 20, 40, 10),
        Shape("for_each", "20 items, 10 at a time, an action each", _for_each(), 20, 40, 10),
        Shape("repeat", "an action, 20 times", _repeat(), 20, 40, 10),
        Shape("queued", "5 actions in activities of their own", _queued(), 5, 20, 10),
        Shape("mixed", "a branch of 5 actions beside 1 queued one", _mixed(), 6, 20, 10),
        Shape("events", "10 times: wait for an event, then an action", _events(), 10, 20, 10, 10),
        Shape("children", "4 instances of 5 actions, waited for", _children(), 20, 20, 10),
    ]


def waiting() -> dict[str, Any]:
    """A graph whose instances all wait for the same event."""
    nodes = [{"id": "hear", "type": "wait", "config": {"event": WIDE_EVENT}}]
    return _document("benchmark.graph.wide", nodes, ["begin", "hear"])


def child() -> dict[str, Any]:
    """What ``children`` starts."""
    return _chain("child", 5)


def _action(node: str, name: str = STEP) -> dict[str, Any]:
    return {"id": node, "type": "action", "config": {"action": name, "input": {"n": 1}}}


def _document(key: str, nodes: list[dict[str, Any]], *lines: list[str]) -> dict[str, Any]:
    """A document with a manual trigger ``begin``; every line is a row of nodes with plain edges."""
    trigger = {"id": "begin", "type": "trigger", "config": {"type": "manual"}}
    return {
        "schema": "roundly.workflows.graph/v1",
        "key": key,
        "name": key,
        "settings": {},
        "nodes": [trigger, *nodes],
        "edges": [
            {"from": before, "to": after} for line in lines for before, after in pairwise(line)
        ],
    }


def _row(prefix: str, count: int, name: str = STEP) -> list[dict[str, Any]]:
    return [_action(f"{prefix}{n}", name) for n in range(count)]


def _ids(nodes: list[dict[str, Any]]) -> list[str]:
    return [node["id"] for node in nodes]


def _chain(name: str, steps: int) -> dict[str, Any]:
    row = _row("s", steps)
    return _document(f"benchmark.graph.{name}", row, ["begin", *_ids(row)])


def _parallel() -> dict[str, Any]:
    branches = {f"b{n}": _row(f"b{n}_", 5) for n in range(4)}
    config = {"branches": {name: row[0]["id"] for name, row in branches.items()}}
    nodes = [{"id": "fan", "type": "parallel", "config": config}]
    for row in branches.values():
        nodes += row
    lines = [_ids(row) for row in branches.values()]
    return _document("benchmark.graph.parallel", nodes, ["begin", "fan"], *lines)


def _for_each() -> dict[str, Any]:
    config = {"items": list(range(20)), "body": "one", "concurrency": 10}
    nodes = [{"id": "all", "type": "for_each", "config": config}, _action("one")]
    return _document("benchmark.graph.for_each", nodes, ["begin", "all"])


def _repeat() -> dict[str, Any]:
    count = {"id": "count", "type": "set", "config": {"values": {"n": "${ state.n + 1 }"}}}
    zero = {"id": "zero", "type": "set", "config": {"values": {"n": 0}}}
    config = {"body": "one", "until": "state.n >= 20"}
    nodes = [zero, {"id": "again", "type": "repeat", "config": config}, _action("one"), count]
    return _document("benchmark.graph.repeat", nodes, ["begin", "zero", "again"], ["one", "count"])


def _queued() -> dict[str, Any]:
    row = _row("q", 5, QUEUED)
    return _document("benchmark.graph.queued", row, ["begin", *_ids(row)])


def _mixed() -> dict[str, Any]:
    row = _row("s", 5)
    config = {"branches": {"inline": "s0", "queued": "q0"}}
    nodes = [{"id": "fan", "type": "parallel", "config": config}, *row, _action("q0", QUEUED)]
    return _document("benchmark.graph.mixed", nodes, ["begin", "fan"], _ids(row))


def _events() -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for n in range(10):
        match = {"instance": "${ instance.id }", "n": n}
        nodes.append({"id": f"w{n}", "type": "wait", "config": {"event": EVENT, "match": match}})
        nodes.append(_action(f"s{n}"))
    return _document("benchmark.graph.events", nodes, ["begin", *_ids(nodes)])


def _children() -> dict[str, Any]:
    config = {"workflow": CHILD, "items": [1, 2, 3, 4], "input": {"n": "${ item }"}}
    nodes = [{"id": "start", "type": "start_workflow", "config": config}]
    return _document("benchmark.graph.children", nodes, ["begin", "start"])
