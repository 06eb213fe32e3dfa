"""A driver none of whose runs takes a second turn; alone here, as Temporal's sandbox loads it."""

from __future__ import annotations

from temporalio import workflow

from temporal_workflows.contracts import WORKFLOW_TYPE, Turned
from temporal_workflows.driver import IDLE_FIRST, InstanceDriver


@workflow.defn(name=WORKFLOW_TYPE)
class ContinuedDriver(InstanceDriver):
    """Continues as new where another one would take its second turn."""

    def __init__(self) -> None:
        super().__init__()
        self._turned = False

    @workflow.run
    async def run(self, ulid: str, idle: float = IDLE_FIRST) -> None:
        await super().run(ulid, idle)

    async def _turn(self, ulid: str) -> Turned | None:
        if self._turned:
            workflow.continue_as_new(ulid)
        self._turned = True
        return await super()._turn(ulid)
