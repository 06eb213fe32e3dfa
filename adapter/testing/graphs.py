"""The graphs that simulations run: between them every node type, and every way to wait."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

WORK: Final = "simulated.work"
RARE: Final = "simulated.rare"
"""As short as the other, but not every worker has a handler for it."""

LONG: Final = "simulated.long"
EVENT: Final = "simulated.event"
BEGINNING: Final = "simulated.beginning"
"""An event that starts an instance, and the key of the graph that it starts."""

SIGNALS: Final = ("go", "stop")


def graphs() -> dict[str, dict[str, Any]]:
    """The documents by key."""
    return {
        "child": _document("child", [_act("a"), _act("b"), _end()], ["a", "b", "end"]),
        "chain": _document(
            "chain",
            [_act("a"), {"id": "set", "type": "set", "config": {"values": {"n": 1}}}, _act("b")],
            ["a", "set", "b"],
        ),
        "events": _document(
            "events",
            [
                _wait("w1", event=EVENT),
                _act("a"),
                _wait("w2", event=EVENT, timeout="PT20S"),
                _wait("w3", event=EVENT, timeout="PT10S"),
                _act("b"),
            ],
            ["w1", "a", "w2", "w3", "b"],
        ),
        "signals": _document(
            "signals",
            [_wait("s1", signal="go"), _act("a"), _wait("s2", signals=list(SIGNALS)), _act("b")],
            ["s1", "a", "s2", "b"],
        ),
        "times": _document(
            "times",
            [
                {"id": "d", "type": "delay", "config": {"for": "PT3S"}},
                _act("a", retry={"max_attempts": 4, "initial": "PT1S", "jitter": 0.5}),
                _wait("w", event="nobody emits this", timeout="PT2S"),
            ],
            ["d", "a", "w"],
        ),
        "queued": _document(
            "queued", [_act("a"), _act("q", LONG), _act("b"), _act("r", LONG)], ["a", "q", "b", "r"]
        ),
        "branches": _document(
            "branches",
            [
                _owner("fan", "parallel", branches={"x": "x1", "y": "y1", "z": "z1"}),
                _act("x1"),
                _act("x2"),
                _act("y1"),
                _act("y2", LONG),
                _wait("z1", signal="go", timeout="PT30S"),
                _act("after"),
            ],
            ["fan", "after"],
            ["x1", "x2"],
            ["y1", "y2"],
        ),
        "any": _document(
            "any",
            [
                _owner("race", "parallel", branches={"x": "x1", "y": "y1"}, join="any"),
                _act("x1"),
                _act("y1", LONG),
                _act("after"),
            ],
            ["race", "after"],
        ),
        "items": _document(
            "items",
            [
                _owner("each", "for_each", items=[1, 2, 3, 4], body="one", concurrency=2),
                _act("one", retry={"max_attempts": 3, "initial": "PT1S"}),
                _act("after"),
            ],
            ["each", "after"],
        ),
        "loop": _document(
            "loop",
            [
                _owner("again", "repeat", body="one", until="steps.one.output.n > 1"),
                _act("one"),
                _act("after"),
            ],
            ["again", "after"],
        ),
        "family": _document(
            "family",
            [
                {
                    "id": "kids",
                    "type": "start_workflow",
                    "config": {"workflow": "child", "items": [1, 2, 3]},
                },
                _act("after"),
            ],
            ["kids", "after"],
        ),
        "nested": _document(
            "nested",
            [
                _owner("each", "for_each", items=[1, 2], body="fan", on_failure="finish"),
                _owner("fan", "parallel", branches={"x": "x1", "y": "y1"}),
                _act("x1"),
                {"id": "y1", "type": "start_workflow", "config": {"workflow": "child"}},
                _act("mend"),
            ],
            ["each", "mend"],
            edges=[{"from": "each", "to": "mend", "on": "failure"}],
        ),
        "quorum": _document(
            "quorum",
            [
                _owner(
                    "most",
                    "parallel",
                    branches={"x": "x1", "y": "y1", "z": "z1"},
                    join="quorum",
                    quorum=2,
                    on_failure="finish",
                ),
                _act("x1", queue="apart", timeout="PT20S"),
                {"id": "y1", "type": "start_workflow", "config": {"workflow": "child"}},
                _wait("z1", event=EVENT, timeout="PT15S"),
                _act("after"),
                _act("mend", RARE),
            ],
            ["most", "after"],
            edges=[{"from": "most", "to": "mend", "on": "failure"}],
        ),
        "first": _document(
            "first",
            [
                _owner("each", "for_each", items=[1, 2, 3], body="one", mode="first_success"),
                _act("one", LONG, retry={"max_attempts": 2, "initial": "PT1S"}),
                _act("after", RARE),
            ],
            ["each", "after"],
        ),
        "decides": _document(
            "decides",
            [
                _act("a"),
                {"id": "by", "type": "decision", "config": {"on": "steps.a.output.n"}},
                {"id": "set", "type": "set", "config": {"values": {"n": "${ steps.a.output.n }"}}},
                _wait("w", event=EVENT, match={"n": 1}, timeout="PT25S"),
                _act("b", RARE),
                _act("mend"),
            ],
            ["a", "by"],
            ["w", "b"],
            ["set", "b"],
            ["mend", "b"],
            edges=[
                {"from": "by", "to": "w", "when": "steps.a.output.n < 2"},
                {"from": "by", "to": "set"},
                {"from": "a", "to": "mend", "on": "failure"},
            ],
        ),
        "awaits": _document(
            "awaits",
            [
                {
                    "id": "w",
                    "type": "wait_for",
                    "config": {"instances": "${ trigger.others }", "timeout": "PT1M"},
                },
                _act("a"),
                _wait("c", event=EVENT, condition="event.n > 0", timeout="PT30S"),
                _act("b"),
            ],
            ["w", "a", "c", "b"],
        ),
        "letting": _document(
            "letting",
            [
                {
                    "id": "kids",
                    "type": "start_workflow",
                    "config": {"workflow": "chain", "items": [1, 2], "mode": "any"},
                },
                {
                    "id": "away",
                    "type": "start_workflow",
                    "config": {"workflow": "child", "wait": False},
                },
                _act("after"),
            ],
            ["kids", "away", "after"],
        ),
        BEGINNING: _document(
            BEGINNING,
            [_wait("w", event=EVENT, timeout="PT30S"), _act("a"), _act("q", LONG)],
            ["w", "a", "q"],
            event=BEGINNING,
        ),
    }


def _act(node: str, action: str = WORK, queue: str | None = None, **more: Any) -> dict[str, Any]:
    config = {"action": action} if queue is None else {"action": action, "queue": queue}
    return {"id": node, "type": "action", "config": config, **more}


def _wait(node: str, **config: Any) -> dict[str, Any]:
    return {"id": node, "type": "wait", "config": config}


def _owner(node: str, kind: str, **config: Any) -> dict[str, Any]:
    return {"id": node, "type": kind, "config": config}


def _end() -> dict[str, Any]:
    return {"id": "end", "type": "end", "config": {"output": {"n": "${ steps.b.output.n }"}}}


def _document(
    key: str,
    nodes: list[dict[str, Any]],
    main: list[str],
    *lines: list[str],
    edges: list[dict[str, Any]] | None = None,
    event: str | None = None,
) -> dict[str, Any]:
    rows = [["trigger", *main], *lines]
    plain = [{"from": before, "to": after} for row in rows for before, after in pairwise(row)]
    trigger = {"type": "manual"} if event is None else {"type": "event", "event": event}
    return {
        "schema": "roundly.workflows.graph/v1",
        "key": key,
        "name": key,
        "nodes": [{"id": "trigger", "type": "trigger", "config": trigger}, *nodes],
        "edges": [*plain, *(edges or [])],
    }
