"""Waits: what fires them, and what happens when their time comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import entries as kinds
from .awaited import settle_instances
from .draft import Draft, Visit, as_text
from .fitting import first_event, settle_signals
from .settling import end_wait

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from adapter.graph.compiled import CompiledNode

    from .children import Child
    from .state import Wait
    from .structure import Key


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
    signals: Sequence[str] = (),
    correlation: str | None = None,
    instances: Sequence[str] = (),
    children: Sequence[Child] = (),
    family: Sequence[Key] | None = None,
) -> None:
    """Opens the wait of a step run, and settles it at once if what it waits for is there.

    Args:
        draft: The decision so far.
        node: The node.
        visit: This entry into it.
        kind: ``timer``, ``event``, ``signal`` or ``instances``.
        due_at: When it is given up.
        event: The key of the event that it waits for.
        match: Fields that the payload of the event or signal must have.
        outcome: The outcome when its time comes first.
        signals: Names of the signals that it waits for.
        correlation: What a signal's correlation must be.
        instances: Ulids of the instances that it waits for.
        children: Those of them that are started with it.
        family: Earlier step runs of the visit that have started the others; None when they are
            nobody's children here.
    """
    wait_id = draft.env.wait_id()
    data: dict[str, Any] = {"wait": wait_id, "kind": kind, **visit.opening()}
    if due_at is not None:
        data["due_at"] = as_text(due_at)
    if event is not None:
        data |= {"event": event, "match": dict(match or {})}
    if signals:
        data |= {"signals": list(signals), "match": dict(match or {})}
    if correlation is not None:
        data["correlation"] = correlation
    if instances:
        data["instances"] = list(instances)
    if outcome is not None:
        data["outcome"] = outcome
    row: dict[str, Any] = {"condition": node.config.condition()}
    if family is not None:
        data |= {"children": True, "started": len(children)}
        if family:
            data["family"] = list(family)
    if children:
        row["children"] = list(children)
    draft.emit(kinds.WAIT_OPENED, node.id, visit.step.id, data, row)
    settle(draft, draft.state.waits[wait_id])


def settle(draft: Draft, wait: Wait) -> None:
    """Fires the wait, times it out, or leaves it open.

    An event that was emitted no later than the wait's time wins over the time, even when both are
    seen at once: what counts is when things happened, not when they were looked at. A signal that
    has come, and an instance that has ended, win likewise.
    """
    if wait.id not in draft.state.waits or draft.state.paused:
        return
    node = draft.graph.nodes[wait.node]
    if wait.kind == "signal":
        settle_signals(draft, node, wait)
    elif wait.kind == "instances":
        settle_instances(draft, node, wait)
    elif (event := first_event(draft, node, wait)) is not None:
        end_wait(draft, node, wait, kinds.WAIT_FIRED, kinds.SUCCESS, event.payload, event=event.id)
    if wait.id not in draft.state.waits:
        return
    if wait.due_at is None or wait.due_at > draft.env.now:
        return
    if wait.kind == "timer":
        end_wait(draft, node, wait, kinds.WAIT_FIRED, wait.outcome or kinds.SUCCESS, None)
    else:
        end_wait(draft, node, wait, kinds.WAIT_TIMED_OUT, wait.outcome or "timed_out", None)
