"""Drivers that differ from the recorded ones: a replay has to notice each."""

from __future__ import annotations

import asyncio

from temporalio import workflow

from temporal_workflows.contracts import LOOK_SIGNAL, WORKFLOW_TYPE
from temporal_workflows.driver import IDLE_FIRST, InstanceDriver


@workflow.defn(name=WORKFLOW_TYPE)
class TimerDriver(InstanceDriver):
    """Sets a timer of its own before the first turn."""

    @workflow.signal(name=LOOK_SIGNAL)
    def look(self) -> None:
        super().look()

    @workflow.run
    async def run(self, ulid: str, idle: float = IDLE_FIRST) -> None:
        await asyncio.sleep(0.5)
        await super().run(ulid, idle)


@workflow.defn(name=WORKFLOW_TYPE)
class EndDriver(InstanceDriver):
    """Ends without a turn."""

    @workflow.signal(name=LOOK_SIGNAL)
    def look(self) -> None:
        super().look()

    @workflow.run
    async def run(self, ulid: str, idle: float = IDLE_FIRST) -> None:
        return None
