"""Temporal by hand: a workflow with one activity per step. No tables are written."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from benchmarks.contenders.temporal_worker import TemporalContender, step


@workflow.defn
class ChainOfActivities:
    """Runs the steps one after the other."""

    @workflow.run
    async def run(self, steps: int) -> int:
        """Returns the sum of the steps' ``n``."""
        total = 0
        for n in range(steps):
            result = await workflow.execute_activity(
                step, n, start_to_close_timeout=timedelta(seconds=30)
            )
            total += result["n"]
        return total


class Contestant(TemporalContender):
    """Each step is scheduled, started and completed in Temporal's history."""

    def __init__(self) -> None:
        super().__init__(ChainOfActivities)
