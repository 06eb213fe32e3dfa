"""Turns and queued steps that tests take without Temporal, in the way that was chosen."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adapter.execution import queued, turn
from adapter.execution.cache import FoldCache
from tests.driving.modes import chosen
from tests.driving.tally import note

if TYPE_CHECKING:
    import asyncio

    from adapter.execution.deps import TurnDeps
    from adapter.execution.turned import TurnResult


async def take_turn(
    deps: TurnDeps, ulid: str, stopping: asyncio.Event | None = None, **more: Any
) -> TurnResult:
    """Takes a turn; twice, or with nothing at hand, as was chosen.

    The second of two is another process's: it knows of the first what stands in the record. Its
    result is the one that counts.
    """
    mode = chosen()
    if mode == "continued":
        note("taken_afresh")
        return await turn.take_turn(_forgetful(deps), ulid, stopping, **more)
    first = await turn.take_turn(deps, ulid, stopping, **more)
    if mode != "twice":
        return first
    second = await turn.take_turn(_forgetful(deps), ulid, stopping, **more)
    note("taken_twice")
    return replace(second, progressed=first.progressed or second.progressed)


async def take_single_turn(
    deps: TurnDeps, ulid: str, stopping: asyncio.Event | None = None, **more: Any
) -> TurnResult:
    """Takes exactly one turn however instances are driven, for tests that tell what one does."""
    return await turn.take_turn(deps, ulid, stopping, **more)


async def run_step(deps: TurnDeps, ulid: str, step: str, **more: Any) -> None:
    """Runs a queued step; twice, if that was chosen, which may come to nothing."""
    await queued.run_step(deps, ulid, step, **more)
    if chosen() == "twice":
        with suppress(queued.StepDelayed):
            await queued.run_step(deps, ulid, step, **more)
        note("run_twice")


def _forgetful(deps: TurnDeps) -> TurnDeps:
    return replace(deps, cache=FoldCache(0))
