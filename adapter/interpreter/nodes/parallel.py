"""``parallel``: runs branches beside one another and joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.interpreter.entries import FAILURE, SUCCESS
from adapter.interpreter.leaving import verdict
from adapter.interpreter.scopes import (
    begin_line,
    close_scope,
    first_failure,
    gathered,
    open_scope,
)

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit
    from adapter.interpreter.structure import Scope

TYPE = "parallel"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Begins all branches."""
    scope = open_scope(draft, node, visit, total=len(node.bodies))
    for name, target in node.bodies.items():
        begin_line(draft, scope, name, target)


def go_on(draft: Draft, node: CompiledNode, scope: Scope) -> None:
    """Joins the branches as soon as enough of them have ended."""
    decided = verdict(scope, node)
    if decided is None:
        return
    failure = first_failure(scope, node) if decided == FAILURE else None
    close_scope(draft, node, scope, decided, _output(draft, node, scope), failure)


def _output(draft: Draft, node: CompiledNode, scope: Scope) -> dict[str, Any]:
    outputs = gathered(draft, scope)
    branches: dict[str, Any] = {}
    for name in node.bodies:
        done = scope.done.get(name)
        branches[name] = {"outcome": "cancelled" if done is None else done.outcome}
        branches[name]["output"] = None if outputs is None else outputs.get(name)
    succeeded, failed = scope.count(SUCCESS), scope.count(FAILURE)
    return {
        "branches": branches,
        "succeeded": succeeded,
        "failed": failed,
        "cancelled": len(branches) - succeeded - failed,
        **({"cut": True} if outputs is None else {}),
    }
