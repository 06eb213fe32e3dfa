"""Scopes: opened by a structure node, closed when its lines are joined."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import orjson

from . import entries as kinds
from .children import orphaned
from .closing import inner, open_below
from .draft import NO_EDGE, Draft, Visit
from .events import Failure
from .leaving import fail_instance, fail_line, handles_failure, is_fatal, leave
from .structure import EMPTY, MAIN_LINE, Position, Scope, line_of, owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapter.graph.compiled import CompiledNode


def open_scope(
    draft: Draft,
    node: CompiledNode,
    visit: Visit,
    *,
    total: int | None,
    config: Mapping[str, Any] | None = None,
) -> Scope:
    """Opens the scope of one visit.

    Args:
        draft: The decision so far.
        node: The structure node.
        visit: This entry into it.
        total: Branches or items; None when only the end will tell.
        config: What the journal keeps of the resolved config: the items.
    """
    data: dict[str, Any] = {**visit.opening(), "scope": node.type, "total": total}
    if config is not None:
        data["config"] = dict(config)
        draft.inputs[visit.step.id] = config
    row: dict[str, Any] = {"input": _kept(draft, config)}
    draft.emit(kinds.SCOPE_OPENED, node.id, visit.step.id, data, row)
    return draft.state.scopes[f"{node.id}.{visit.step.visit}"]


def _kept(draft: Draft, config: Mapping[str, Any] | None) -> Any:
    if config is None:
        return None
    size = len(orjson.dumps(config))
    return dict(config) if size <= draft.env.bounds.input_bytes else {"cut": True, "bytes": size}


def begin_line(draft: Draft, scope: Scope, name: str, target: str) -> None:
    """Has the first node of a line entered, as soon as the decision comes to it."""
    draft.queue.append((line_of(scope.key, name), target))


def under_way(draft: Draft, scope: Scope) -> int:
    """Lines of a scope that are begun, or about to be, and have not ended."""
    return scope.begun - len(scope.done) + about_to_begin(draft, scope)


def about_to_begin(draft: Draft, scope: Scope) -> int:
    """Lines of a scope that this decision is still to begin."""
    return sum(
        owner_of(line)[0] == scope.key and line not in draft.state.lines for line, _ in draft.queue
    )


def close_scope(
    draft: Draft,
    node: CompiledNode,
    scope: Scope,
    outcome: str,
    output: Any,
    failure: Failure | None = None,
) -> None:
    """Joins the lines: ends the step run, cancels what is still open below, and goes on.

    Args:
        draft: The decision so far.
        node: The structure node.
        scope: Its scope.
        outcome: Decides the edge.
        output: The step run's output, made of what the lines came to.
        failure: Why, when the outcome is ``failure``.
    """
    handled = failure is None or handles_failure(node)
    if failure is not None and not handled and is_fatal(draft, scope.line):
        # Nothing is closed, so that a retry finds the lines that have succeeded.
        fail_instance(draft, _any_line(scope), node.id, failure)
        return
    step = draft.state.steps[scope.step]
    draft.outputs[step.id] = output
    draft.pending_results = scope.results
    edge, broken = draft.route(node, step, outcome, output) if handled else (NO_EDGE, None)
    draft.pending_results = EMPTY
    steps, waits = open_below(draft.state, scope)
    data: dict[str, Any] = {"scope": scope.key, "outcome": outcome, "edge": edge}
    if steps:
        orphans = [step for w in waits for step in orphaned(draft.state.waits[w])]
        data |= {"steps": steps, "waits": waits, "orphans": orphans}
    row: dict[str, Any] = {"output": output}
    if failure is not None:
        data["code"] = failure.code
        row["message"] = failure.message
    _forget_queued(draft, scope)
    draft.emit(kinds.SCOPE_CLOSED, node.id, step.id, data, row)
    if failure is not None and not handled:
        again = Position(step.id, step.node, step.type, step.visit, step.attempt, step.line, None)
        fail_line(draft, scope.line, node.id, failure, step=step.id, position=again)
        return
    leave(draft, node, step, outcome, edge, broken)


def _any_line(scope: Scope) -> str:
    """A line of the scope, so that the scope counts among those that fail with the instance."""
    return line_of(scope.key, next(iter(scope.done), ""))


def _forget_queued(draft: Draft, scope: Scope) -> None:
    _, scopes = inner(draft.state, scope)
    gone = {*scopes, scope.key}
    draft.queue = deque(
        (line, target)
        for line, target in draft.queue
        if line == MAIN_LINE or owner_of(line)[0] not in gone
    )


def gathered(draft: Draft, scope: Scope) -> dict[str, Any] | None:
    """The outputs of the lines that succeeded, by name; None when they are too large together.

    They stay in their own step runs, whatever is said here.

    Raises:
        ValuesNeeded: One of them is not at hand.
    """
    done = {n: d for n, d in scope.done.items() if d.outcome == kinds.SUCCESS}
    if sum(d.size for d in done.values()) > draft.env.bounds.max_output_bytes:
        return None
    return {
        name: None if ended.step is None else draft.output(ended.step)
        for name, ended in done.items()
    }


def first_failure(scope: Scope, node: CompiledNode) -> Failure:
    """Why a scope failed: the first of its lines that did."""
    failed = [(name, d) for name, d in scope.done.items() if d.outcome == kinds.FAILURE]
    if not failed:
        return Failure("step_failed", f"too few lines of {node.id!r} could succeed")
    name, done = failed[0]
    count = f"; {len(failed)} in all" if len(failed) > 1 else ""
    message = f"{node.id!r}, {name!r} failed: {done.message}{count}"
    return Failure(done.code or "step_failed", message, retryable=False)
