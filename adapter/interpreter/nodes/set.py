"""``set``: writes workflow variables, all of them worked out before any is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.events import Failure
from adapter.interpreter.passing import fail_at_once, fail_to_resolve, pass_through

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit

TYPE = "set"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Merges the values into ``state``; a state above its limit fails the step."""
    try:
        values = draft.render(node, visit.step.line)["values"]
    except EvaluationFailed as error:
        fail_to_resolve(draft, node, visit, error)
        return
    size = len(orjson.dumps({**draft.state.values, **values}))
    limit = draft.env.bounds.max_state_bytes
    if size > limit:
        message = f"set {node.id!r} makes the state {size} bytes, the limit is {limit}"
        fail_at_once(draft, node, visit, Failure("state_too_large", message, retryable=False))
        return
    pass_through(draft, node, visit, values=values)
