"""DBOS: an async workflow whose steps are recorded in PostgreSQL, in one process, as it is used.

Its settings are its own; only that it logs no more than errors is asked of it, as of everybody.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from dbos import DBOS, DBOSConfig

from benchmarks.contenders.contract import Contender, Servers, drive

if TYPE_CHECKING:
    from benchmarks.loads import Load

AS_IT_COMES: Final[dict[str, Any]] = {"log_level": "ERROR"}


@DBOS.step()
async def step(n: int) -> dict[str, int]:
    """One step of a chain."""
    await asyncio.sleep(0)
    return {"n": n}


@DBOS.workflow()
async def chain(steps: int) -> int:
    """Runs the steps one after the other; returns the sum of their ``n``."""
    total = 0
    for n in range(steps):
        total += (await step(n))["n"]
    return total


class Contestant(Contender):
    """One DBOS executor; chains are started as its documentation starts them from async code."""

    settings: ClassVar[dict[str, Any]] = AS_IT_COMES

    async def setup(self, servers: Servers) -> None:
        """Launches DBOS with ``settings``."""
        self.facts = {"dbos": version("dbos"), "settings": self.settings}
        config = {
            "name": "almanac-benchmark",
            "application_version": "1",
            "system_database_url": servers.database_url,
            **self.settings,
        }
        DBOS(config=cast("DBOSConfig", config))
        # on this loop, so that DBOS runs the workflows here too
        DBOS.launch()

    async def run(self, load: Load) -> float:
        async def start_and_wait(steps: int) -> int:
            handle = await DBOS.start_workflow_async(chain, steps)
            return await handle.get_result()

        return await drive(load, start_and_wait)

    async def teardown(self) -> None:
        await asyncio.to_thread(DBOS.destroy)
