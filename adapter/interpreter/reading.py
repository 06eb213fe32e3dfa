"""What an expression sees of the steps: its own line first, then the lines around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .structure import MAIN_LINE, Result, owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .state import State


def results_on(state: State, line: str) -> Mapping[str, Result]:
    """The latest finished step run of each node, as seen from a line.

    A line sees what its own nodes have come to, and before that what the lines around it have:
    an item never sees the steps of another item.
    """
    if line == MAIN_LINE:
        return state.results
    around: list[Mapping[str, Result]] = []
    while line != MAIN_LINE:
        here = state.lines.get(line)
        if here is not None:
            around.append(here.results)
        scope = state.scopes.get(owner_of(line)[0])
        if scope is None:
            break
        if scope.kind == "repeat":
            # What the iteration before has left.
            around.append(scope.results)
        line = scope.line
    seen = dict(state.results)
    for results in reversed(around):
        seen.update(results)
    return seen
