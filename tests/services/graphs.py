"""Small documents for tests of the use cases."""

from __future__ import annotations

from typing import Any

SCHEMA = "roundly.workflows.graph/v1"


def document(key: str = "permits", **parts: Any) -> dict[str, Any]:
    """A trigger that leads to an end; parts of the document by keyword."""
    return {
        "schema": SCHEMA,
        "key": key,
        "name": key.title(),
        "nodes": [
            {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
            {"id": "done", "type": "end"},
        ],
        "edges": [{"from": "begin", "to": "done"}],
        **parts,
    }


def waiting(
    key: str = "permits",
    *,
    event: str = "permits.moved",
    match: dict[str, Any] | None = None,
    trigger: dict[str, Any] | None = None,
    **wait: Any,
) -> dict[str, Any]:
    """A trigger, a wait for an event, an end; parts of the wait's config by keyword."""
    config = {"event": event, **wait}
    if match is not None:
        config["match"] = match
    return document(
        key,
        nodes=[
            {"id": "begin", "type": "trigger", "config": trigger or {"type": "manual"}},
            {"id": "move", "type": "wait", "config": config},
            {"id": "done", "type": "end"},
        ],
        edges=[{"from": "begin", "to": "move"}, {"from": "move", "to": "done"}],
    )


def triggered(key: str, event: str, condition: Any = None) -> dict[str, Any]:
    """A document that an event starts."""
    trigger = {"type": "event", "event": event}
    if condition is not None:
        trigger["condition"] = condition
    made = document(key)
    made["nodes"][0]["config"] = trigger
    return made
