"""What workers are made of in each way of driving, in place of production's parts."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

from temporalio import activity

from temporal_workflows import worker
from temporal_workflows.activities import StepActivities, TurnActivities
from temporal_workflows.contracts import STEP_ACTIVITY, TURN_ACTIVITY, Turned
from temporal_workflows.driver import InstanceDriver
from tests.driving.continued import ContinuedDriver
from tests.driving.modes import VARIABLE, chosen
from tests.driving.tally import note, note_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapter.execution.deps import TurnDeps


class CountedTurns(TurnActivities):
    """Counts the turns of each instance.

    Attributes:
        taken: How often each turn was taken, by ulid, run and activity.
    """

    taken: ClassVar[Counter[tuple[str, str, str]]] = Counter()

    @activity.defn(name=TURN_ACTIVITY)
    async def turn(self, ulid: str, known: list[str]) -> Turned:
        info = activity.info()
        run = info.workflow_run_id or ""
        self.taken[ulid, run, info.activity_id] += 1
        note_turn(ulid, run, info.activity_id)
        return await super().turn(ulid, known)


class TwiceTurns(CountedTurns):
    """Takes every turn twice, and notes what the second one wrote.

    Attributes:
        again: (ulid, first and last seq) of what second turns have written.
    """

    again: ClassVar[list[tuple[str, int, int]]] = []

    @activity.defn(name=TURN_ACTIVITY)
    async def turn(self, ulid: str, known: list[str]) -> Turned:
        first = await super().turn(ulid, known)
        before = await self._seq(ulid)
        second = await super().turn(ulid, known)
        after = await self._seq(ulid)
        if after != before and not first.more:
            self.again.append((ulid, before + 1, after))
        info = activity.info()
        note("turn_twice", ulid, info.workflow_run_id or "", info.activity_id)
        return second

    async def _seq(self, ulid: str) -> int:
        table = self._deps.settings.tables.instances
        seq: int = await self._deps.pool.fetchval(
            f"SELECT lock_version FROM {table} WHERE ulid = $1", ulid
        )
        return seq


class TwiceSteps(StepActivities):
    """Runs every queued step twice."""

    @activity.defn(name=STEP_ACTIVITY)
    async def step(self, ulid: str, step: str) -> None:
        await super().step(ulid, step)
        await super().step(ulid, step)
        note("step_twice")


_PARTS: dict[str, dict[str, Any]] = {
    "plain": {"TurnActivities": CountedTurns},
    "continued": {"TurnActivities": CountedTurns, "InstanceDriver": ContinuedDriver},
    "twice": {"TurnActivities": TwiceTurns, "StepActivities": TwiceSteps},
}


@contextmanager
def driving(mode: str) -> Iterator[None]:
    """Has the workers of this process drive instances in that way."""
    with patch.multiple(worker, **_PARTS[mode]):
        yield


@contextmanager
def driving_as_chosen() -> Iterator[None]:
    """The same in the way that the environment asks for; production's parts if it does not."""
    if not os.environ.get(VARIABLE):
        yield
        return
    with driving(chosen()):
        yield


def driver_class() -> type[InstanceDriver]:
    """The driver for workers that a test puts together itself."""
    driver: type[InstanceDriver] = _PARTS[chosen()].get("InstanceDriver", InstanceDriver)
    return driver


def turn_activities(deps: TurnDeps) -> TurnActivities:
    """The turns for such workers, without queued steps."""
    turns: TurnActivities = _PARTS[chosen()]["TurnActivities"](deps, asyncio.Event(), _no_matter)
    return turns


def _no_matter(_ulid: str) -> None:
    return None
