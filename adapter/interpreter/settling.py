"""The end of a wait: the entry that ends it, and the way on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import entries as kinds
from .children import orphaned
from .leaving import fail_step, leave

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode

    from .draft import Draft
    from .events import Failure
    from .state import Wait


def end_wait(
    draft: Draft,
    node: CompiledNode,
    wait: Wait,
    kind: str,
    outcome: str,
    output: Any,
    **more: Any,
) -> None:
    """Ends a wait and leaves its node.

    Args:
        draft: The decision so far.
        node: The node that waits.
        wait: The open wait.
        kind: ``wait_fired`` or ``wait_timed_out``.
        outcome: Decides the edge.
        output: What the step run's output is.
        more: What else the entry says: ``event`` or ``signal``.
    """
    step = draft.state.steps[wait.step]
    draft.outputs[step.id] = output
    edge, broken = draft.route(node, step, outcome, output)
    data: dict[str, Any] = {"wait": wait.id, "outcome": outcome, "edge": edge, **more}
    row: dict[str, Any] = {"output": output}
    if wait.kind == "signal" and kind == kinds.WAIT_FIRED:
        row["resume_signal"] = output
    draft.emit(kind, node.id, step.id, {**data, **orphans(wait)}, row)
    leave(draft, node, step, outcome, edge, broken)


def fail_wait(draft: Draft, node: CompiledNode, wait: Wait, failure: Failure) -> None:
    """Ends a wait as failed: what it needs cannot come any more."""
    step = draft.state.steps[wait.step]
    fail_step(draft, node, step, failure, kind=kinds.WAIT_FAILED, wait=wait.id, **orphans(wait))


def orphans(wait: Wait) -> dict[str, Any]:
    """The step whose children are let go with the wait, where some have not ended."""
    steps = orphaned(wait)
    return {"orphans": list(steps)} if steps else {}
