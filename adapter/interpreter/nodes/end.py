"""``end``: the instance is over, as completed, failed or cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter import entries as kinds
from adapter.interpreter.draft import NO_EDGE, Draft, Visit
from adapter.interpreter.events import Failure
from adapter.interpreter.leaving import fail_instance
from adapter.interpreter.passing import fail_at_once, fail_to_resolve
from adapter.interpreter.structure import MAIN_LINE

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode

TYPE = "end"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Keeps the output in its step run and ends the instance."""
    config: Any = node.config
    try:
        rendered = draft.render(node, visit.step.line)
    except EvaluationFailed as error:
        fail_to_resolve(draft, node, visit, error)
        return
    output = rendered.get("output")
    size, limit = len(orjson.dumps(output)), draft.env.bounds.max_output_bytes
    if size > limit:
        message = f"end {node.id!r} has an output of {size} bytes, the limit is {limit}"
        fail_at_once(draft, node, visit, Failure("output_too_large", message, retryable=False))
        return
    data = {**visit.data(), "outcome": kinds.SUCCESS, "edge": NO_EDGE}
    row = {} if output is None else {"output": output}
    draft.emit(kinds.STEP_PASSED, node.id, visit.step.id, data, row)
    draft.queue.clear()
    if config.status == "failed":
        message = str(rendered.get("message") or f"ended at {node.id!r}")
        fail_instance(draft, MAIN_LINE, node.id, Failure(config.code or "step_failed", message))
    elif config.status == "cancelled":
        draft.emit(kinds.CANCELLED, node.id)
    else:
        draft.emit(kinds.COMPLETED, node.id)
