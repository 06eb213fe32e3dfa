"""Which lane a step takes: inline, in the turn itself, or queued, in an activity of its own.

Inline is for what is short: a declared time-out of at most two seconds, no task queue, no
heartbeat. Anything else is queued; so is a step that has killed two workers, and one that this
worker has no handler for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.compiled import ONE_ATTEMPT

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode

    from .draft import Draft
    from .env import Policy
    from .state import Step

INLINE_SECONDS = 2.0
LOSSES = 2
"""Workers that a step may kill before it is suspected: it is queued then, and workers run suspects
one at a time, so that the next death can be held against it alone."""

DEFAULT_QUEUE = ""
"""The task queue for queued steps that name none."""


def queue_of(draft: Draft, node: CompiledNode, losses: int = 0) -> str | None:
    """The task queue that runs a step of an action node; None when it is inline."""
    config: Any = node.config
    policy: Policy | None = draft.env.policies.get(config.action)
    if not draft.env.activities:
        return None
    named = config.queue or (policy.queue if policy is not None else None)
    if named is not None:
        return str(named)
    if policy is None or config.heartbeat is not None or policy.heartbeat or losses >= LOSSES:
        return DEFAULT_QUEUE
    timeout = policy.timeout if node.timeout is None else node.timeout.total_seconds()
    return DEFAULT_QUEUE if timeout > INLINE_SECONDS else None


def losses_of(draft: Draft, step: Step) -> int:
    """How many workers have died in a visit, this one included.

    A worker that dies in a turn takes all its steps with it, and nobody can tell which of them
    killed it. So inline losses only lead to the lane of the suspects; they end nothing.
    """
    losses = step.losses + 1
    return min(losses, LOSSES) if draft.env.activities and step.queue is None else losses


def policy_of(draft: Draft, node: CompiledNode) -> Any:
    """How failed attempts of a node are repeated: as the graph says, else as its action does."""
    if node.retry is not ONE_ATTEMPT:
        return node.retry
    action = getattr(node.config, "action", None)
    policy = draft.env.policies.get(action) if action else None
    return policy.retry if policy is not None else None
