"""Waits: what fires them, and what happens when their time comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.budgets import BUDGET, Meter, Scope
from adapter.graph.expressions import EvaluationFailed

from . import entries as kinds
from .draft import Draft, Visit, as_text, describe

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from adapter.graph.compiled import CompiledNode

    from .events import StoredEvent
    from .state import Wait


WORK_PER_EVENT = BUDGET / 20
"""What a wait's condition may cost for one event: about 5 ms; one that costs more does not hold."""


def open_wait(
    draft: Draft,
    node: CompiledNode,
    visit: Visit,
    *,
    kind: str,
    due_at: datetime | None = None,
    event: str | None = None,
    match: Mapping[str, Any] | None = None,
    outcome: str | None = None,
) -> None:
    """Opens the wait of a step run, and settles it at once if what it waits for is there."""
    wait_id = draft.env.wait_id()
    data: dict[str, Any] = {"wait": wait_id, "kind": kind, **describe(visit.step)}
    if visit.new:
        data["new"] = True
    if due_at is not None:
        data["due_at"] = as_text(due_at)
    if event is not None:
        data |= {"event": event, "match": dict(match or {})}
    if outcome is not None:
        data["outcome"] = outcome
    row = {"condition": node.config.condition()}
    draft.emit(kinds.WAIT_OPENED, node.id, visit.step.id, data, row)
    settle(draft, draft.state.waits[wait_id])


def settle(draft: Draft, wait: Wait) -> None:
    """Fires the wait, times it out, or leaves it open.

    An event that was emitted no later than the wait's time wins over the time, even when both are
    seen at once: what counts is when things happened, not when they were looked at.
    """
    if wait.id not in draft.state.waits:
        return
    node = draft.graph.nodes[wait.node]
    due = wait.due_at is not None and wait.due_at <= draft.env.now
    event = _first_fitting(draft, node, wait)
    if event is not None:
        _end(draft, node, wait, kinds.WAIT_FIRED, kinds.SUCCESS, event)
    elif due and wait.kind == "timer":
        _end(draft, node, wait, kinds.WAIT_FIRED, wait.outcome or kinds.SUCCESS, None)
    elif due:
        _end(draft, node, wait, kinds.WAIT_TIMED_OUT, wait.outcome or "timed_out", None)


def _first_fitting(draft: Draft, node: CompiledNode, wait: Wait) -> StoredEvent | None:
    if wait.event is None:
        return None
    for event in draft.env.stored(wait):
        if event.id in draft.state.consumed:
            continue
        if wait.due_at is not None and event.at is not None and event.at > wait.due_at:
            continue
        if node.condition is None or _holds(draft, node, event):
            return event
    return None


def _holds(draft: Draft, node: CompiledNode, event: StoredEvent) -> bool:
    if node.condition is None:
        return True
    try:
        # Each event has a meter of its own, so that none is turned down for those before it.
        names = Scope(draft.names(node), Meter(WORK_PER_EVENT))
        names["event"] = event.payload
        return node.condition.test(names)
    except EvaluationFailed:
        return False


def _end(
    draft: Draft,
    node: CompiledNode,
    wait: Wait,
    kind: str,
    outcome: str,
    event: StoredEvent | None,
) -> None:
    step = draft.state.steps[wait.step]
    output = None if event is None else event.payload
    draft.outputs[step.id] = output
    edge, broken = draft.route(node, step, outcome, output)
    data: dict[str, Any] = {"wait": wait.id, "outcome": outcome, "edge": edge}
    if event is not None:
        data["event"] = event.id
    draft.emit(kind, node.id, step.id, data, {"output": output})
    draft.leave(node, step, outcome, edge, broken)
