"""Closing parts of a state: what a line or a scope takes with it when it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .state import Frozen, State
from .structure import Position, owner_of

if TYPE_CHECKING:
    from .entries import Entry
    from .structure import Key, Scope


def inner(state: State, scope: Scope) -> tuple[frozenset[str], frozenset[str]]:
    """The open lines below a scope and the scopes on them, however deep.

    Returns:
        Names of lines, keys of scopes (the scope itself left out).
    """
    lines: set[str] = set()
    scopes: set[str] = set()
    owners = {scope.key}
    # A scope stands later in the mapping than the one whose line it was opened on.
    for key, candidate in state.scopes.items():
        if candidate.line and owner_of(candidate.line)[0] in owners:
            owners.add(key)
            scopes.add(key)
    for name in state.lines:
        if owner_of(name)[0] in owners:
            lines.add(name)
    return frozenset(lines), frozenset(scopes)


def open_below(state: State, scope: Scope) -> tuple[list[Key], list[Key]]:
    """The open step runs and waits on the lines below a scope."""
    lines, _ = inner(state, scope)
    steps = [step.id for step in state.steps.values() if step.line in lines]
    waits = [wait.id for wait in state.waits.values() if wait.step in set(steps)]
    return steps, waits


def without_scope(state: State, scope: Scope) -> State:
    """The state without a scope, its lines and all that is open on them."""
    lines, scopes = inner(state, scope)
    steps, waits = open_below(state, scope)
    gone = {*scopes, scope.key}
    return replace(
        state,
        steps={k: v for k, v in state.steps.items() if k not in set(steps)},
        waits={k: v for k, v in state.waits.items() if k not in set(waits)},
        scopes={k: v for k, v in state.scopes.items() if k not in gone},
        lines={k: v for k, v in state.lines.items() if k not in lines},
    )


def without_line(state: State, line: str) -> State:
    """The state without a line that has nothing open on it."""
    return replace(state, lines={k: v for k, v in state.lines.items() if k != line})


def freeze(state: State, entry: Entry) -> Frozen:
    """What a retry needs of the state in which an instance failed.

    Args:
        state: The state just before.
        entry: The ``failed`` entry.
    """
    data = entry.data.get("position")
    position = None if data is None else Position(**data)
    return Frozen(position, state.steps, state.scopes, state.lines)
