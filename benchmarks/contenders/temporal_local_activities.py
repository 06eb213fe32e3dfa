"""Temporal by hand: a workflow with one local activity per step. No tables are written.

The result of a local activity is kept only when the workflow task that it runs in ends: a worker
that dies loses all steps since, so this is a bound for what a record of each step costs, no equal.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from benchmarks.contenders.temporal_worker import TemporalContender, step


@workflow.defn
class ChainOfLocalActivities:
    """Runs the steps one after the other."""

    @workflow.run
    async def run(self, steps: int) -> int:
        """Returns the sum of the steps' ``n``."""
        total = 0
        for n in range(steps):
            result = await workflow.execute_local_activity(
                step, n, start_to_close_timeout=timedelta(seconds=30)
            )
            total += result["n"]
        return total


class Contestant(TemporalContender):
    """Each step leaves a marker in Temporal's history when its workflow task ends."""

    def __init__(self) -> None:
        super().__init__(ChainOfLocalActivities)
