"""``trigger``: where an instance begins; its payload is the name ``trigger`` in expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.interpreter.passing import pass_through

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit

TYPE = "trigger"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Leaves at once; the payload stays in the instance's row and is not copied."""
    pass_through(draft, node, visit, output=draft.env.facts.trigger, keep=False)
