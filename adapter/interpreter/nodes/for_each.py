"""``for_each``: runs the same body for every item of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adapter.graph.configs import BODY
from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.entries import FAILURE, SUCCESS
from adapter.interpreter.events import Failure
from adapter.interpreter.leaving import verdict
from adapter.interpreter.passing import fail_at_once, pass_through
from adapter.interpreter.scopes import (
    about_to_begin,
    begin_line,
    close_scope,
    first_failure,
    gathered,
    open_scope,
    under_way,
)

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit
    from adapter.interpreter.structure import Scope

TYPE = "for_each"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Takes the items down once, whatever becomes of the list, and begins the first ones."""
    try:
        items = draft.render(node, visit.step.line)["items"]
        failure = items_failure(draft, node, items)
    except EvaluationFailed as error:
        failure = Failure("expression_failed", str(error), retryable=False)
        items = []
    if failure is not None:
        fail_at_once(draft, node, visit, failure)
        return
    if not items:
        empty = {"results": [], "failures": [], "total": 0}
        output = {**empty, "succeeded": 0, "failed": 0, "cancelled": 0}
        pass_through(draft, node, visit, output=output)
        return
    scope = open_scope(draft, node, visit, total=len(items), config={"items": items})
    _begin_items(draft, node, scope)


def items_failure(draft: Draft, node: CompiledNode, items: object) -> Failure | None:
    """Why these cannot be the items of a node; None if they can."""
    bounds = draft.env.bounds
    if not isinstance(items, list):
        message = f"{node.type} {node.id!r}: `items` gave {items!r:.80}, which is no list"
        return Failure("expression_failed", message, retryable=False)
    if len(items) > bounds.max_items:
        message = f"{node.type} {node.id!r} has {len(items)} items (limits.max_items)"
        message += f"; the limit is {bounds.max_items}"
        return Failure("max_items_exceeded", message, retryable=False)
    size = len(orjson.dumps(items))
    if size > bounds.max_state_bytes:
        message = f"the items of {node.id!r} are {size} bytes, the limit is"
        message += f" {bounds.max_state_bytes}; store them elsewhere and list references"
        return Failure("state_too_large", message, retryable=False)
    return None


def go_on(draft: Draft, node: CompiledNode, scope: Scope) -> None:
    """Joins the items as soon as enough of them have ended; else begins further ones."""
    decided = verdict(scope, node)
    if decided is None:
        _begin_items(draft, node, scope)
        return
    failure = first_failure(scope, node) if decided == FAILURE else None
    close_scope(draft, node, scope, decided, _output(draft, scope), failure)


def _begin_items(draft: Draft, node: CompiledNode, scope: Scope) -> None:
    config: Any = node.config
    free = config.concurrency - under_way(draft, scope)
    first = scope.begun + about_to_begin(draft, scope)
    for index in range(first, min(first + max(free, 0), scope.total or 0)):
        begin_line(draft, scope, str(index), node.bodies[BODY])


def _output(draft: Draft, scope: Scope) -> dict[str, Any]:
    outputs, total = gathered(draft, scope), scope.total or 0
    failures = [
        {"index": int(name), "code": done.code, "message": done.message}
        for name, done in scope.done.items()
        if done.outcome == FAILURE
    ]
    succeeded = scope.count(SUCCESS)
    results = None if outputs is None else [outputs.get(str(index)) for index in range(total)]
    return {
        "results": results,
        "failures": sorted(failures, key=lambda failure: failure["index"] or 0),
        "total": total,
        "succeeded": succeeded,
        "failed": len(failures),
        "cancelled": total - succeeded - len(failures),
        **({"cut": True} if outputs is None else {}),
    }
