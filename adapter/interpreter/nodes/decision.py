"""``decision``: chooses an edge, by the value of an expression or by the edges' conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.entries import SUCCESS
from adapter.interpreter.events import Failure
from adapter.interpreter.passing import fail_at_once, pass_through

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit

TYPE = "decision"
MAX_OUTCOME = 32


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Evaluates ``on`` if there is one; its text is the outcome."""
    outcome = SUCCESS
    try:
        value = draft.render(node).get("on")
    except EvaluationFailed as error:
        fail_at_once(draft, node, visit, Failure("expression_failed", str(error), retryable=False))
        return
    if value is not None:
        outcome = _as_outcome(value)
        if not 0 < len(outcome) <= MAX_OUTCOME:
            message = (
                f"decision {node.id!r}: `on` gave {outcome[:80]!r};"
                f" an outcome has 1 to {MAX_OUTCOME} characters"
            )
            fail_at_once(draft, node, visit, Failure("expression_failed", message, retryable=False))
            return
    pass_through(draft, node, visit, outcome=outcome)


def _as_outcome(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
