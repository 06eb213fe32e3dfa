"""Other ways to drive instances than production's, which must lead to the same rows.

``plain`` is production's. ``continued`` continues as new after every turn, so that no run knows
more than one. ``twice`` takes every turn and runs every queued step twice, as happens when a
worker dies between the end of one and Temporal's learning of it. ``ALMANAC_TEST_DRIVING`` chooses
for a whole run of the tests.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

from temporalio import activity

from temporal_workflows import worker
from temporal_workflows.activities import StepActivities, TurnActivities
from temporal_workflows.contracts import STEP_ACTIVITY, TURN_ACTIVITY, Turned
from tests.workflow.continued import ContinuedDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

MODES = ("plain", "continued", "twice")
VARIABLE = "ALMANAC_TEST_DRIVING"


class CountedTurns(TurnActivities):
    """Counts the turns of each instance.

    Attributes:
        taken: How often each turn was taken, by ulid, run and activity.
    """

    taken: ClassVar[Counter[tuple[str, str, str]]] = Counter()

    @activity.defn(name=TURN_ACTIVITY)
    async def turn(self, ulid: str, known: list[str]) -> Turned:
        info = activity.info()
        self.taken[ulid, info.workflow_run_id or "", info.activity_id] += 1
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


def chosen() -> str:
    """The way that the environment asks for."""
    mode = os.environ.get(VARIABLE) or "plain"
    if mode not in MODES:
        raise ValueError(f"{VARIABLE}={mode!r}: use one of {', '.join(MODES)}")
    return mode
