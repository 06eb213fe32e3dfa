"""Documents of patterns, written short: nodes by their type, chains of edges by their names."""

from __future__ import annotations

import itertools
from typing import Any

from tests.execution.runtime import graph


def document(key: str, *nodes: dict[str, Any], edges: list[Any]) -> dict[str, Any]:
    """A document; an edge is as it is, or ``"a b c"``: plain edges from each to the next."""
    made: list[Any] = []
    for edge in edges:
        made += itertools.pairwise(edge.split()) if isinstance(edge, str) else [edge]
    return graph(*nodes, edges=made, key=key)


def on(node: str, outcome: str, to: str) -> dict[str, Any]:
    """An edge for an outcome."""
    return {"from": node, "to": to, "on": outcome}


def when(node: str, condition: Any, to: str) -> dict[str, Any]:
    """An edge with a condition."""
    return {"from": node, "to": to, "when": condition}


def do(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Steps that are done at once."""
    return [{"id": name, "type": "action", "config": {"action": "do", **more}} for name in names]


def tell(name: str, signal: str, **more: Any) -> dict[str, Any]:
    """A step that sends a signal to its own instance."""
    config = {"action": "tell", "input": {"signal": signal, **more}}
    return {"id": name, "type": "action", "config": config}


def task(*names: str) -> list[dict[str, Any]]:
    """Work that somebody does: each ends when the signal of its name comes."""
    return [wait(name, signal=name) for name in names]


def wait(name: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "wait", "config": config}


def decide(name: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "decision", "config": config}


def put(name: str, **values: Any) -> dict[str, Any]:
    return {"id": name, "type": "set", "config": {"values": values}}


def end(name: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "end", "config": config}


def parallel(name: str, branches: str, **config: Any) -> dict[str, Any]:
    """``branches`` are the nodes that they begin with, whose names they have."""
    begins = {branch: branch for branch in branches.split()}
    return {"id": name, "type": "parallel", "config": {"branches": begins, **config}}


def for_each(name: str, items: Any, body: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "for_each", "config": {"items": items, "body": body, **config}}


def repeat(name: str, body: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "repeat", "config": {"body": body, **config}}


def start_workflow(name: str, workflow: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "start_workflow", "config": {"workflow": workflow, **config}}
