"""How a step is left: by an edge, at the end of its line, or by a failure that nobody handles.

A failure climbs: out of its line, into the scope that owns it, and on, until a scope goes on
without it or has an edge for failures. When nothing does, the instance fails with everything open
kept in the state, so that a retry takes up the failed parts alone.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from . import entries as kinds
from .events import Failure
from .joining import Join
from .messages import clean
from .nodes import structure_for
from .structure import MAIN_LINE, Position, owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapter.graph.compiled import CompiledNode

    from .draft import Draft
    from .state import Step
    from .structure import Key, Scope

MAX_MESSAGE = 200
"""Characters of a failure's message that the state keeps."""


def leave(
    draft: Draft,
    node: CompiledNode,
    step: Step,
    outcome: str,
    edge: Mapping[str, Any],
    failure: Failure | None,
) -> None:
    """Goes on after a step has ended: the next node, the end of the line, or a failure.

    Args:
        draft: The decision so far.
        node: The node that is left.
        step: Its step run, which has ended.
        outcome: How.
        edge: The edge to take, as the entry says it.
        failure: Why none could be chosen, or what failed without an edge for it.
    """
    if failure is not None:
        fail_line(draft, step.line, node.id, failure, step=step.id)
    elif edge["to"] is not None:
        draft.queue.append((step.line, edge["to"]))
    elif node.type == "decision":
        message = f"no edge of decision {node.id!r} fits outcome {outcome!r}; add a plain edge"
        fail_line(draft, step.line, node.id, Failure("no_edge", message), step=step.id)
    elif step.line == MAIN_LINE:
        draft.emit(kinds.COMPLETED, node.id)
    else:
        size = len(orjson.dumps(draft.outputs.get(step.id)))
        data = {"line": step.line, "outcome": kinds.SUCCESS, "size": size}
        draft.emit(kinds.LINE_ENDED, node.id, step.id, data)
        _go_on(draft, step.line)


def fail_step(
    draft: Draft,
    node: CompiledNode,
    step: Step,
    failure: Failure,
    *,
    kind: str = kinds.STEP_FAILED,
    **more: Any,
) -> None:
    """Ends a step as failed for good and leaves by its failure edge, if it has one.

    Args:
        draft: The decision so far.
        node: The step's node.
        step: The open step run.
        failure: Why.
        kind: ``step_failed``, ``step_lost`` or ``wait_failed``.
        more: What else the entry says.
    """
    draft.outputs[step.id] = None
    edge, broken = draft.route(node, step, kinds.FAILURE)
    data = {"code": failure.code, "retryable": failure.retryable, "final": True}
    data |= {"outcome": kinds.FAILURE, "edge": edge, **more}
    draft.emit(kind, node.id, step.id, data, {"message": failure.message})
    if broken is None and edge["to"] is not None:
        draft.queue.append((step.line, edge["to"]))
        return
    fail_line(draft, step.line, node.id, broken or failure, step=step.id, position=position(step))


def fail_line(
    draft: Draft,
    line: str,
    node: str,
    failure: Failure,
    *,
    step: Key | None = None,
    position: Position | None = None,
) -> None:
    """Ends a line as failed, and the instance with it if nothing around goes on without it.

    Args:
        draft: The decision so far.
        line: The line.
        node: Where it failed.
        failure: Why.
        step: The step run that failed, if one did.
        position: Where a retry follows; None if nothing can be tried again.
    """
    if is_fatal(draft, line):
        fail_instance(draft, line, node, failure, position)
        return
    data: dict[str, Any] = {
        "line": line,
        "outcome": kinds.FAILURE,
        "code": failure.code,
        "message": clean(failure.message)[:MAX_MESSAGE],
    }
    if position is not None:
        data["position"] = asdict(position)
    draft.emit(kinds.LINE_ENDED, node, step, data)
    _go_on(draft, line)


def is_fatal(draft: Draft, line: str) -> bool:
    """Whether the instance fails when this line does."""
    while line != MAIN_LINE:
        scope = draft.state.scopes[owner_of(line)[0]]
        owner = draft.graph.nodes[scope.node]
        if verdict(scope, owner, failing=1) != kinds.FAILURE or handles_failure(owner):
            return False
        line = scope.line
    return True


def verdict(scope: Scope, node: CompiledNode, failing: int = 0) -> str | None:
    """Whether a scope is decided, with ``failing`` more lines failed than have ended so."""
    failed = scope.count(kinds.FAILURE) + failing
    if scope.total is None:
        return kinds.FAILURE if failed else None
    return Join.of(node).verdict(scope.total, scope.count(kinds.SUCCESS), failed)


def handles_failure(node: CompiledNode) -> bool:
    """Whether a node has an edge for its failure."""
    return any(edge.on == kinds.FAILURE for edge in node.edges)


def fail_instance(
    draft: Draft,
    line: str,
    node: str,
    failure: Failure,
    position: Position | None = None,
) -> None:
    """Ends the instance as failed; open steps and waits end with it."""
    draft.queue.clear()
    data: dict[str, Any] = {"code": failure.code}
    owners: list[Key] = []
    if line != MAIN_LINE:
        data["line"] = line
    while line != MAIN_LINE and (scope := draft.state.scopes.get(owner_of(line)[0])) is not None:
        owners.append(scope.step)
        line = scope.line
    if owners:
        data["scopes"] = owners
    if position is not None:
        data["position"] = asdict(position)
    draft.emit(kinds.FAILED, node, None, data, {"message": failure.message})


def position(step: Step) -> Position:
    """Where a retry of a failed step follows."""
    source = step.source
    if source is None and step.status == "running":
        source = step.id
    return Position(step.id, step.node, step.type, step.visit, step.attempt, step.line, source)


def _go_on(draft: Draft, line: str) -> None:
    """Has the structure node that owns a line do what follows from its end."""
    scope = draft.state.scopes[owner_of(line)[0]]
    structure_for(scope.kind).go_on(draft, draft.graph.nodes[scope.node], scope)
