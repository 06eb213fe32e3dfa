"""``action``: runs a handler of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter import entries as kinds
from adapter.interpreter.draft import Draft, ValuesNeeded, Visit, describe
from adapter.interpreter.events import Failure
from adapter.interpreter.passing import fail_at_once

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode

TYPE = "action"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Begins the step if this turn may and can run its handler; else leaves it scheduled."""
    config: Any = node.config
    env = draft.env
    if not env.begin or config.action not in env.policies:
        if visit.new:
            draft.emit(kinds.STEP_SCHEDULED, node.id, visit.step.id, describe(visit.step))
        return
    try:
        resolved = _resolve(draft, node, visit)
    except EvaluationFailed as error:
        fail_at_once(draft, node, visit, Failure("expression_failed", str(error), retryable=False))
        return
    encoded = orjson.dumps(resolved)
    data = {**visit.data(), "token": env.writer, "worker": env.worker}
    kept: Any = resolved
    if len(encoded) > env.bounds.input_bytes:
        if visit.step.source is None:
            # Further attempts find it here.
            data["config"] = resolved
        kept = {"cut": True, "bytes": len(encoded)}
    draft.emit(kinds.STEP_STARTED, node.id, visit.step.id, data, {"input": kept, "call": resolved})


def _resolve(draft: Draft, node: CompiledNode, visit: Visit) -> Any:
    source = visit.step.source
    if source is None:
        return draft.render(node).get("input") or {}
    if source not in draft.env.inputs:
        raise ValuesNeeded(inputs=frozenset({source}))
    return draft.env.inputs[source]
