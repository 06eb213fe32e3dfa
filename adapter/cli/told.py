"""A row of an inbox in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.cli.output import shorten

if TYPE_CHECKING:
    from adapter.services.views import InboxView


def what_was_told(row: InboxView) -> str:
    """Returns what a row says beside its kind, on one line."""
    payload: dict[str, Any] = row.payload if isinstance(row.payload, dict) else {}
    match row.kind:
        case "signal":
            parts = [payload.get("name"), shorten(payload.get("payload"))]
            if "correlation" in payload:
                parts.append(f"for {payload['correlation']}")
        case "event":
            parts = [row.event, shorten(row.payload)]
        case "pause" | "cancel":
            parts = [payload.get("reason"), "by its parent" if payload.get("by") else None]
        case "child":
            parts = [payload.get("ulid"), payload.get("status")]
        case "start" | "resume" | "retry":
            parts = []
        case _:
            parts = [shorten(row.payload)]
    return shorten(" ".join(str(part) for part in parts if part), 100)
