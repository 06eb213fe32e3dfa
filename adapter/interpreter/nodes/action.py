"""``action``: runs a handler of the host."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter import entries as kinds
from adapter.interpreter.draft import Draft, Visit, as_text, describe
from adapter.interpreter.lanes import queue_of
from adapter.interpreter.passing import fail_to_resolve

if TYPE_CHECKING:
    from datetime import datetime

    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.events import Claimed

TYPE = "action"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Begins the step if this turn may and can run its handler; else leaves it scheduled."""
    if visit.step.queue is None:
        queue = queue_of(draft, node, visit.step.losses)
        if queue is not None:
            _queue(draft, node, visit, queue)
            return
    config: Any = node.config
    if not draft.may_begin or config.action not in draft.env.policies:
        if visit.new:
            draft.emit(kinds.STEP_SCHEDULED, node.id, visit.step.id, describe(visit.step))
        return
    _begin(draft, node, visit, None)


def begin_claimed(draft: Draft, event: Claimed) -> None:
    """Begins a queued step for the activity that claims it, if it is still to be begun."""
    step = draft.state.steps.get(event.step)
    if step is None or step.queue is None or draft.state.paused:
        return
    due = step.status == "retrying" and step.due_at is not None and step.due_at <= draft.env.now
    if step.status == "scheduled" or due:
        lease = draft.env.now + timedelta(seconds=event.lease)
        _begin(draft, draft.graph.nodes[step.node], Visit(step, new=False), lease)


def _queue(draft: Draft, node: CompiledNode, visit: Visit, queue: str) -> None:
    """Leaves the step to an activity of its task queue."""
    step = replace(visit.step, queue=queue)
    data = describe(step) if visit.new else {**describe(step), "known": True}
    draft.emit(kinds.STEP_SCHEDULED, node.id, step.id, data)


def _begin(draft: Draft, node: CompiledNode, visit: Visit, lease: datetime | None) -> None:
    env = draft.env
    try:
        resolved = _resolve(draft, node, visit)
    except EvaluationFailed as error:
        fail_to_resolve(draft, node, visit, error)
        return
    encoded = orjson.dumps(resolved)
    data = {**visit.data(), "token": env.writer, "worker": env.worker}
    kept: Any = resolved
    if len(encoded) > env.bounds.input_bytes:
        if visit.step.source is None:
            # Further attempts find it here.
            data["config"] = resolved
        kept = {"cut": True, "bytes": len(encoded)}
    row = {"input": kept, "call": resolved}
    if lease is not None:
        data["lease"] = as_text(lease)
    draft.emit(kinds.STEP_STARTED, node.id, visit.step.id, data, row)


def _resolve(draft: Draft, node: CompiledNode, visit: Visit) -> Any:
    if visit.step.source is None:
        return draft.render(node, visit.step.line).get("input") or {}
    return draft.config(visit.step.source)
