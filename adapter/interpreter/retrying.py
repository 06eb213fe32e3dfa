"""A retry of a failed instance: only what failed, or was cut off by the failure, is done again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import entries as kinds
from .draft import describe
from .state import Step
from .structure import MAIN_LINE, Position, owner_of

if TYPE_CHECKING:
    from .draft import Draft
    from .state import Frozen, State
    from .structure import Scope


def retryable(state: State) -> bool:
    """Whether a failed instance can go on: every line and scope that was open has where to go on.

    A line that failed over a decision without an edge has not, nor has a repeat that is exhausted:
    the graph itself must change.
    """
    frozen = state.frozen
    if frozen is None:
        return False
    going = {place.line for place in positions(frozen)}
    going |= {scope.line for scope in frozen.scopes.values()}
    owners = {owner_of(line)[0] for line in going if line != MAIN_LINE}
    return {MAIN_LINE, *frozen.lines} <= going and set(frozen.scopes) <= owners


def positions(frozen: Frozen) -> list[Position]:
    """Where lines go on: where they failed, and where the failure cut them off."""
    found = [] if frozen.position is None else [frozen.position]
    for scope in frozen.scopes.values():
        failed = [done for done in scope.done.values() if done.outcome == kinds.FAILURE]
        found += [done.position for done in failed if done.position is not None]
    owners = {scope.step for scope in frozen.scopes.values()}
    for step in frozen.steps.values():
        if step.id not in owners:
            # A wait is entered anew; a handler that was cut off gets the input that it had.
            source = step.id if step.source is None and step.status == "running" else step.source
            found.append(
                Position(step.id, step.node, step.type, step.visit, step.attempt, step.line, source)
            )
    return found


def reopen(draft: Draft) -> None:
    """Opens the next attempt of every position, and of the scopes around them."""
    # The entry before has made these parts of the state live again.
    frozen = _frozen_before(draft)
    for scope in frozen.scopes.values():
        _reopen_scope(draft, scope, frozen.steps[scope.step])
    for place in positions(frozen):
        attempt = Step(
            draft.env.step_id(),
            place.node,
            place.type,
            place.visit,
            place.attempt + 1,
            "scheduled",
            place.line,
            source=place.source,
        )
        draft.emit(kinds.STEP_SCHEDULED, place.node, attempt.id, describe(attempt))


def _frozen_before(draft: Draft) -> Frozen:
    frozen = draft.before.frozen
    if frozen is None:
        raise AssertionError("a retry without anything to take up")
    return frozen


def _reopen_scope(draft: Draft, scope: Scope, step: Step) -> None:
    attempt = Step(
        draft.env.step_id(),
        step.node,
        step.type,
        step.visit,
        step.attempt + 1,
        "waiting",
        step.line,
        source=scope.source,
    )
    data: dict[str, Any] = {
        "new": True,
        **describe(attempt),
        "scope": scope.kind,
        "total": scope.total,
        "again": True,
    }
    draft.emit(kinds.SCOPE_OPENED, step.node, attempt.id, data, {"input": None})
