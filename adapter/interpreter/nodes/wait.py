"""``wait``: goes on when an event or signals come, or when its time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.nodes.delay import due_time
from adapter.interpreter.passing import fail_to_resolve
from adapter.interpreter.waiting import open_wait

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit

TYPE = "wait"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Resolves match and time once, opens the wait, and takes what is there already if it fits."""
    config: Any = node.config
    try:
        rendered = draft.render(node, visit.step.line)
        due = due_time(rendered, draft.env.now, "timeout")
        correlation = rendered.get("correlation")
        if correlation is not None and not isinstance(correlation, str):
            raise EvaluationFailed(f"correlation of {node.id!r} gave {correlation!r:.80}, no text")
    except (EvaluationFailed, ValueError) as error:
        fail_to_resolve(draft, node, visit, error)
        return
    signals = config.signals or ([] if config.signal is None else [config.signal])
    if config.event is None and not signals:
        open_wait(draft, node, visit, kind="timer", due_at=due or draft.env.now)
        return
    open_wait(
        draft,
        node,
        visit,
        kind="signal" if signals else "event",
        due_at=due,
        event=config.event,
        match=rendered.get("match") or {},
        outcome=config.outcome,
        signals=signals,
        correlation=correlation,
    )
