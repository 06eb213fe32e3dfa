"""``decision``: chooses an edge, by the value of an expression or by the edges' conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.entries import SUCCESS
from adapter.interpreter.passing import fail_to_resolve, pass_through

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit

TYPE = "decision"
MAX_OUTCOME = 32


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Evaluates ``on`` if there is one; its text is the outcome."""
    config: Any = node.config
    outcome = SUCCESS
    try:
        if config.on is not None:
            outcome = _outcome(node.id, draft.render(node, visit.step.line)["on"])
    except EvaluationFailed as error:
        fail_to_resolve(draft, node, visit, error)
        return
    pass_through(draft, node, visit, outcome=outcome)


def _outcome(node: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value) if isinstance(value, str | int | float) else ""
    if not 0 < len(text) <= MAX_OUTCOME:
        raise EvaluationFailed(
            f"decision {node!r}: `on` gave {value!r:.80}; an outcome is a text of 1 to"
            f" {MAX_OUTCOME} characters, a number or a boolean"
        )
    return text
