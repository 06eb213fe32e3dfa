"""Nodes that take no time: entered and left in one entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import entries as kinds
from .draft import Draft, Visit, describe
from .events import Failure
from .leaving import fail_step, leave
from .state import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapter.graph.compiled import CompiledNode

    from .children import Child


def pass_through(
    draft: Draft,
    node: CompiledNode,
    visit: Visit,
    *,
    outcome: str = kinds.SUCCESS,
    output: Any = None,
    keep: bool = True,
    values: Mapping[str, Any] | None = None,
    children: Sequence[Child] = (),
) -> None:
    """Enters and leaves a node.

    Args:
        draft: The decision so far.
        node: The node.
        visit: This entry into it.
        outcome: Decides the edge.
        output: What ``steps.<node>.output`` stands for.
        keep: Whether the step run keeps the output in its row.
        values: New workflow variables.
        children: Instances that it starts.
    """
    step = visit.step
    draft.outputs[step.id] = output
    if values:
        # Edges are chosen with the new variables in place.
        draft.pending_values = dict(values)
    edge, broken = draft.route(node, step, outcome, output)
    draft.pending_values = EMPTY
    data: dict[str, Any] = {**visit.data(), "outcome": outcome, "edge": edge}
    if values:
        data["set"] = dict(values)
    row = {"output": output} if keep and output is not None else {}
    if children:
        data["started"] = len(children)
        row["children"] = children
    draft.emit(kinds.STEP_PASSED, node.id, step.id, data, row)
    leave(draft, node, step, outcome, edge, broken)


def fail_at_once(draft: Draft, node: CompiledNode, visit: Visit, failure: Failure) -> None:
    """Enters a node and fails there: its config could not be resolved."""
    if visit.new:
        draft.emit(kinds.STEP_SCHEDULED, node.id, visit.step.id, describe(visit.step))
    fail_step(draft, node, visit.step, failure)


def fail_to_resolve(draft: Draft, node: CompiledNode, visit: Visit, error: Exception) -> None:
    """Enters a node and fails there: an expression of its config failed, or gave what is no use."""
    fail_at_once(draft, node, visit, Failure("expression_failed", str(error), retryable=False))
