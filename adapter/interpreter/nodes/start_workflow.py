"""``start_workflow``: starts an instance of another definition, or one for each item of a list.

The children are written in the append that opens their wait, so there is never one without the
other. A child that ends writes to its parent's inbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.bulk import bounded
from adapter.interpreter.children import Child
from adapter.interpreter.events import Failure
from adapter.interpreter.needs import Needs, ValuesNeeded
from adapter.interpreter.nodes.delay import due_time
from adapter.interpreter.nodes.for_each import items_failure
from adapter.interpreter.passing import fail_at_once, fail_to_resolve, pass_through
from adapter.interpreter.waiting import open_wait

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.children import Definition
    from adapter.interpreter.draft import Draft, Visit
    from adapter.interpreter.structure import Key

TYPE = "start_workflow"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Starts the children, and waits for them unless they are let go."""
    config: Any = node.config
    try:
        rendered = draft.render(node, visit.step.line)
        due = due_time(rendered, draft.env.now, "timeout")
        payloads = _payloads(draft, node, visit, rendered)
    except (EvaluationFailed, ValueError) as error:
        fail_to_resolve(draft, node, visit, error)
        return
    if isinstance(payloads, Failure):
        fail_at_once(draft, node, visit, payloads)
        return
    definition = _definition(draft, config.workflow)
    family, ulids = _taken_up(draft, node, visit, len(payloads))
    failure = _refused(draft, node, definition, ulids.count(None))
    if failure is not None or definition is None:
        fail_at_once(draft, node, visit, failure or _unknown(node.id, config.workflow))
        return
    children: list[Child] = []
    for index, payload in enumerate(payloads):
        if ulids[index] is None:
            place = f"{node.id}:{visit.step.visit}:{visit.step.attempt}:{index}"
            ulids[index] = draft.env.ulid()
            child = Child(draft.env.child_id(), str(ulids[index]), definition, payload, place)
            children.append(child)
    if not config.wait:
        output: dict[str, Any] = {"ulids": ulids}
        if config.items is None:
            output = {"ulid": ulids[0]}
        pass_through(draft, node, visit, output=output, children=children)
    elif not ulids:
        output = {"results": [], "succeeded": 0, "failed": 0, "cancelled": 0}
        pass_through(draft, node, visit, output=output)
    else:
        open_wait(
            draft,
            node,
            visit,
            kind="instances",
            due_at=due,
            outcome=config.outcome,
            instances=[str(ulid) for ulid in ulids],
            children=children,
            family=family,
        )


def _taken_up(
    draft: Draft, node: CompiledNode, visit: Visit, count: int
) -> tuple[tuple[Key, ...], list[str | None]]:
    """What a retry need not start again: the instances that have completed, or may yet.

    Returns:
        The step runs that have started them, and their ulids by item; None where a new one is to
        be started.
    """
    family = draft.state.families.get(f"{node.id}.{visit.step.visit}")
    if family is None or visit.step.attempt == 1 or len(family.ulids) != count:
        return (), [None] * count
    missing = frozenset(family.ulids) - draft.env.statuses.keys()
    if missing:
        raise ValuesNeeded(Needs(statuses=missing))
    statuses = draft.env.statuses
    return family.steps, [
        u if statuses[u] in ("completed", "running") else None for u in family.ulids
    ]


def _payloads(
    draft: Draft, node: CompiledNode, visit: Visit, rendered: dict[str, Any]
) -> list[Any] | Failure:
    config: Any = node.config
    if config.items is None:
        return [rendered.get("input")]
    items = rendered["items"]
    failure = items_failure(draft, node, items)
    if failure is not None:
        return failure
    if node.item_template is None:
        return [None] * len(items)
    names = draft.names(node, visit.step.line)
    payloads: list[Any] = []
    for item in items:
        names["item"] = item
        payloads.append(bounded(node.id, node.item_template.render(names)).get("input"))
    bounded(node.id, payloads)  # All of them go into one statement.
    return payloads


def _definition(draft: Draft, key: str) -> Definition | None:
    if key not in draft.env.definitions:
        raise ValuesNeeded(Needs(definitions=frozenset({key})))
    return draft.env.definitions[key]


def _refused(
    draft: Draft, node: CompiledNode, definition: Definition | None, count: int
) -> Failure | None:
    config: Any = node.config
    bounds = draft.env.bounds
    if definition is None:
        return _unknown(node.id, config.workflow)
    if draft.env.facts.depth + 1 > bounds.max_depth:
        message = f"{node.id!r} would start an instance {draft.env.facts.depth + 1} levels below"
        message += f" the first one; the limit is {bounds.max_depth} (limits.max_depth)"
        return Failure("max_depth_exceeded", message, retryable=False)
    if draft.state.started + count > bounds.max_started:
        message = f"{node.id!r} would start {count} instances after {draft.state.started}; the"
        message += f" limit is {bounds.max_started} (limits.max_started)"
        return Failure("max_started_exceeded", message, retryable=False)
    return None


def _unknown(node: str, key: str) -> Failure:
    message = f"{node!r} starts {key!r}, of which nothing is published; publish it, then retry"
    return Failure("child_failed", message, retryable=False)
