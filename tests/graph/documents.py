"""Small documents for tests, and what validation says about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.validation import validate

if TYPE_CHECKING:
    from adapter.graph.findings import Finding

SCHEMA = "roundly.workflows.graph/v1"


def document(nodes: list[Any], edges: list[Any] | None = None, **head: Any) -> dict[str, Any]:
    """A document that begins by hand at node ``begin``, which leads to the first of the nodes."""
    begin = {"id": "begin", "type": "trigger", "config": {"type": "manual"}}
    first = [{"from": "begin", "to": item["id"]} for item in nodes[:1] if _has_id(item)]
    return {
        "schema": SCHEMA,
        "key": "test",
        "name": "Test",
        **head,
        "nodes": [begin, *nodes],
        "edges": [*first, *(edges or [])],
    }


def _has_id(item: Any) -> bool:
    return isinstance(item, dict) and "id" in item


def action(node_id: str = "act", **fields: Any) -> dict[str, Any]:
    return {"id": node_id, "type": "action", "config": {"action": "host.act"}, **fields}


def node(node_type: str, config: dict[str, Any], node_id: str = "it") -> dict[str, Any]:
    return {"id": node_id, "type": node_type, "config": config}


def told(found: list[Finding]) -> set[tuple[str, str]]:
    """(code, pointer) of each finding."""
    return {(finding.code, finding.pointer) for finding in found}


def findings(value: Any, **options: Any) -> set[tuple[str, str]]:
    return told(validate(value, **options))
