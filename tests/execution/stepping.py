"""Drives instances as the Temporal workflow does, queued steps in tasks in place of activities."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapter.execution.queued import StepDelayed
from tests.driving.turns import run_step, take_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.execution.deps import TurnDeps
    from adapter.execution.turned import TurnResult

SHORTEST = 0.02


@dataclass(slots=True)
class Stepping:
    """One instance, driven by turns of the first process and steps of all of them.

    Attributes:
        processes: Which take queued steps in turn.
        delayed: Steps that were asked to be offered again, each time.
    """

    ulid: str
    processes: Sequence[TurnDeps]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    delayed: list[str] = field(default_factory=list)
    steps: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    doubts: dict[str, asyncio.Event] = field(default_factory=dict)

    async def drive(self, until: str = "", turns: int = 300) -> TurnResult:
        """Takes turns until the instance has ended, has a status, or waits for an event."""
        for _ in range(turns):
            result = await self.turn()
            if result.ended or result.status == until:
                await self.close()
                return result
            if result.more and not result.stuck:
                continue
            if not self.steps and result.delay is None:
                return result
            delay = SHORTEST if result.stuck else result.delay
            await asyncio.wait(
                [*self.steps.values(), asyncio.create_task(asyncio.sleep(delay or 30))],
                return_when=asyncio.FIRST_COMPLETED,
            )
        raise AssertionError(f"instance {self.ulid} was not done after {turns} turns")

    async def turn(self) -> TurnResult:
        """One turn, with the starts and stops that it asks for."""
        for step in [step for step, task in self.steps.items() if task.done()]:
            self.steps.pop(step).result()
        result = await take_turn(
            self.processes[0], self.ulid, activities=True, known=frozenset(self.steps)
        )
        if result.queued is not None:
            listed = {queued.step for queued in result.queued}
            for step in listed - self.steps.keys():
                self.doubts[step] = asyncio.Event()
                self.steps[step] = asyncio.create_task(self._run(step))
            for step in self.steps.keys() - listed:
                self.doubts[step].set()
        return result

    async def close(self) -> None:
        """Waits for the steps under way, as a worker that stops."""
        await asyncio.gather(*self.steps.values())

    async def _run(self, step: str) -> None:
        for attempt in range(1_000):
            deps = self.processes[attempt % len(self.processes)]
            try:
                await run_step(
                    deps, self.ulid, step, doubt=self.doubts[step], stopping=self.stopping
                )
            except StepDelayed as delayed:
                self.delayed.append(str(delayed))
                await asyncio.sleep(min(delayed.seconds, SHORTEST * 5))
            else:
                return
