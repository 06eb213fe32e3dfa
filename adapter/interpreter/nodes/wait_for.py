"""``wait_for``: waits until instances have ended that somebody else has started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.events import Failure
from adapter.interpreter.nodes.delay import due_time
from adapter.interpreter.nodes.for_each import items_failure
from adapter.interpreter.passing import fail_at_once, fail_to_resolve, pass_through
from adapter.interpreter.waiting import open_wait

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit

TYPE = "wait_for"
ULID = 26
"""Characters of a ulid."""


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Works out which instances are meant, once, and waits for them."""
    config: Any = node.config
    try:
        rendered = draft.render(node, visit.step.line)
        due = due_time(rendered, draft.env.now, "timeout")
    except (EvaluationFailed, ValueError) as error:
        fail_to_resolve(draft, node, visit, error)
        return
    named = rendered["instances"]
    ulids = [named] if isinstance(named, str) else named
    failure = items_failure(draft, node, ulids) or _malformed(node.id, ulids)
    if failure is not None:
        fail_at_once(draft, node, visit, failure)
    elif not ulids:
        pass_through(draft, node, visit, output={"instances": []})
    else:
        open_wait(
            draft,
            node,
            visit,
            kind="instances",
            due_at=due,
            outcome=config.outcome,
            instances=list(dict.fromkeys(ulid.upper() for ulid in ulids)),
        )


def _malformed(node: str, ulids: list[Any]) -> Failure | None:
    for ulid in ulids:
        if not isinstance(ulid, str) or len(ulid) != ULID or not ulid.isascii():
            message = f"{node!r} waits for {ulid!r:.80}, which is no instance's ulid"
            return Failure("wait_unsatisfiable", message, retryable=False)
    return None
