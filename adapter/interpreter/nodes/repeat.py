"""``repeat``: runs a body again and again, while or until a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.configs import BODY
from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.entries import FAILURE, SUCCESS
from adapter.interpreter.events import Failure
from adapter.interpreter.passing import fail_to_resolve, pass_through
from adapter.interpreter.scopes import begin_line, close_scope, first_failure, open_scope
from adapter.interpreter.structure import EMPTY

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit
    from adapter.interpreter.structure import Scope

TYPE = "repeat"
EXHAUSTED = "exhausted"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Begins the first iteration, unless ``while`` does not hold from the start."""
    config: Any = node.config
    try:
        wanted = config.while_ is None or _holds(draft, node, visit.step.line)
    except EvaluationFailed as error:
        fail_to_resolve(draft, node, visit, error)
        return
    if not wanted:
        pass_through(draft, node, visit, output={"iterations": 0, "output": None})
        return
    scope = open_scope(draft, node, visit, total=None)
    begin_line(draft, scope, "1", node.bodies[BODY])


def go_on(draft: Draft, node: CompiledNode, scope: Scope) -> None:
    """After an iteration: another one, or the end."""
    config: Any = node.config
    (done,) = scope.done.values()
    if done.outcome == FAILURE:
        output = {"iterations": scope.begun, "output": None}
        close_scope(draft, node, scope, FAILURE, output, first_failure(scope, node))
        return
    output = {
        "iterations": scope.begun,
        "output": None if done.step is None else draft.output(done.step),
    }
    try:
        draft.pending_results = scope.results
        held = _holds(draft, node, scope.line)
    except EvaluationFailed as error:
        failure = Failure("expression_failed", str(error), retryable=False)
        close_scope(draft, node, scope, FAILURE, output, failure)
        return
    finally:
        draft.pending_results = EMPTY
    if held is (config.while_ is None):
        close_scope(draft, node, scope, SUCCESS, output)
    elif scope.begun < config.max_iterations:
        begin_line(draft, scope, str(scope.begun + 1), node.bodies[BODY])
    elif any(edge.on == EXHAUSTED for edge in node.edges):
        close_scope(draft, node, scope, EXHAUSTED, output)
    else:
        message = f"repeat {node.id!r} is not done after {scope.begun} iterations (max_iterations)"
        message += f"; add an edge for {EXHAUSTED!r}, or raise the limit"
        failure = Failure("max_transitions_exceeded", message, retryable=False)
        close_scope(draft, node, scope, FAILURE, output, failure)


def _holds(draft: Draft, node: CompiledNode, line: str) -> bool:
    return node.condition is None or node.condition.test(draft.names(node, line))
