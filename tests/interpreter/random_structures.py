"""Random documents with branches, items, iterations, children and signals, and histories of them.

Bodies are made as trees, so that every document is one that could be published.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 3

SIGNALS = ["go", "stop"]
ITEMS: list[Any] = [[], [1], [1, 2, 3], "${ [1, 2].map(x, x * trigger.amount) }", "${ 7 }"]
JOINS: list[dict[str, Any]] = [{}, {"on_failure": "finish"}, {"quorum": 1}]


class _Making:
    """One document in the making."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.numbers: Iterator[int] = itertools.count(1)
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []

    def line(self, depth: int) -> str:
        """Adds a line of nodes; returns the first one's id."""
        ids = [self.node(depth) for _ in range(self.draw(st.integers(1, 2)))]
        for before, after in itertools.pairwise(ids):
            self.edges.append({"from": before, "to": after})
            if self.draw(st.integers(0, 3)) == 0:
                self.edges.append({"from": before, "to": after, "on": "failure"})
        return ids[0]

    def node(self, depth: int) -> str:
        node_id = f"n{next(self.numbers)}"
        flat = ["action", "action", "action", "set", "wait", "signal", "delay", "child"]
        owners = ["parallel", "for_each", "repeat"] if depth < MAX_DEPTH else []
        made = self.draw(st.sampled_from([*flat, *owners, *owners]))
        node: dict[str, Any] = {"id": node_id, **self._made(made, depth)}
        if node["type"] == "action" and self.draw(st.booleans()):
            node["retry"] = {"max_attempts": 2, "initial": "PT1S"}
        self.nodes.append(node)
        return node_id

    def _made(self, made: str, depth: int) -> dict[str, Any]:
        draw = self.draw
        match made:
            case "action":
                good = ["${ trigger.amount }", 3, "${ steps.trigger.output.side }"]
                value = draw(st.sampled_from([*good * 2, "${ 1 / 0 }"]))
                return {"type": made, "config": {"action": "known", "input": {"v": value}}}
            case "set":
                return {"type": made, "config": {"values": {"count": draw(st.integers(0, 3))}}}
            case "delay":
                return {"type": made, "config": {"for": "PT5S"}}
            case "wait":
                return {"type": made, "config": {"event": "paid", "timeout": "PT1H"}}
            case "signal":
                return {"type": "wait", "config": draw(st.sampled_from(_SIGNAL_WAITS))}
            case "child":
                return {"type": "start_workflow", "config": draw(st.sampled_from(_STARTS))}
            case "parallel":
                count = draw(st.integers(1, 3))
                branches = {f"b{n}": self.line(depth + 1) for n in range(count)}
                join = self._join("join", ["all", "any", "quorum"])
                return {"type": made, "config": {"branches": branches, **join}}
            case "for_each":
                config = {
                    "items": draw(st.sampled_from(ITEMS)),
                    "body": self.line(depth + 1),
                    "concurrency": draw(st.integers(1, 3)),
                    **self._join("mode", ["all", "first_success", "quorum"]),
                }
                return {"type": made, "config": config}
            case _:
                condition = draw(
                    st.sampled_from(["state.count > 1", "true", "false", "1 / 0 == 1"])
                )
                config = {
                    "body": self.line(depth + 1),
                    draw(st.sampled_from(["while", "until"])): condition,
                    "max_iterations": draw(st.integers(1, 3)),
                }
                return {"type": made, "config": config}

    def _join(self, field: str, modes: list[str]) -> dict[str, Any]:
        mode = self.draw(st.sampled_from(modes))
        join: dict[str, Any] = {field: mode}
        if mode == "quorum":
            join["quorum"] = 1
        if self.draw(st.booleans()):
            join["on_failure"] = "finish"
        return join


_SIGNAL_WAITS: list[dict[str, Any]] = [
    {"signal": "go"},
    {"signal": "go", "timeout": "PT1H"},
    {"signal": "stop", "match": {"n": 1}},
    {"signal": "stop", "condition": "event.n > 2"},
    {"signals": SIGNALS},
    {"signals": SIGNALS, "mode": "any"},
    {"signal": "go", "correlation": "${ 'c' + string(trigger.amount) }"},
]
_STARTS: list[dict[str, Any]] = [
    {"workflow": "other", "input": {"n": "${ trigger.amount }"}},
    {"workflow": "other", "wait": False},
    {"workflow": "nothing"},
    {"workflow": "other", "items": [1, 2], "input": {"n": "${ item }"}},
    {"workflow": "other", "items": [1, 2], "mode": "any", "timeout": "PT1H"},
]


@st.composite
def structured_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Documents whose main line leads through structure nodes."""
    making = _Making(draw)
    first = making.line(0)
    trigger = {"id": "trigger", "type": "trigger", "config": {"type": "manual"}}
    return {
        "schema": "roundly.workflows.graph/v1",
        "key": "structured",
        "name": "Structured",
        "nodes": [trigger, *making.nodes],
        "edges": [{"from": "trigger", "to": first}, *making.edges],
    }


STRUCTURED_MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["finish"] * 6,
                "fail",
                "fatal",
                "tick",
                "later",
                "event",
                "take_over",
                "held",
                *["signal"] * 3,
                *["child"] * 2,
                "pause",
                "resume",
                "resume",
                "retry",
                "retry",
                "cancel",
            ]
        ),
        st.integers(0, 5),
    ),
    max_size=60,
)
