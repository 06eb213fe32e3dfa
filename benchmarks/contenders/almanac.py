"""Almanac: a published graph of action nodes; each step is one commit to the documented tables."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from adapter.client.almanac import Almanac
from adapter.client.endings import Endings
from adapter.engine.connecting import connect
from adapter.execution.registry import Registry
from adapter.settings import Settings
from benchmarks import footprint
from benchmarks.contenders.contract import Contender, Servers, drive
from benchmarks.errors import WrongResult
from benchmarks.loads import WARM_UP
from temporal_workflows.worker import running_worker

if TYPE_CHECKING:
    from benchmarks.loads import Load

DEFINITION: Final = "benchmark.chain.{steps}"
REGISTRY: Final = Registry()

_WRONG: Final = """
SELECT i.ulid, i.status, count(s.id) AS steps, sum((s.output ->> 'n')::integer) AS total
FROM workflow_instances i LEFT JOIN workflow_step_runs s ON s.instance_id = i.id
  AND s.node_type = 'action' AND s.status = 'succeeded'
WHERE i.ulid = ANY ($1) GROUP BY i.id
HAVING i.status <> 'completed' OR count(s.id) <> $2
  OR sum((s.output ->> 'n')::integer) IS DISTINCT FROM $3 LIMIT 1
"""


@REGISTRY.action("benchmark.step")
async def step(n: int) -> dict[str, int]:
    """One step of a chain."""
    await asyncio.sleep(0)
    return {"n": n}


def chain_graph(steps: int) -> dict[str, Any]:
    """The graph of a chain: a manual trigger, then ``steps`` action nodes in a row."""
    nodes: list[dict[str, Any]] = [
        {"id": "begin", "type": "trigger", "name": "Begin", "config": {"type": "manual"}}
    ]
    nodes += [
        {
            "id": f"step_{n}",
            "type": "action",
            "name": f"Step {n}",
            "config": {"action": "benchmark.step", "input": {"n": n}},
            "timeout": "PT2S",
        }
        for n in range(steps)
    ]
    edges = [{"from": before["id"], "to": after["id"]} for before, after in pairwise(nodes)]
    return {
        "schema": "roundly.workflows.graph/v1",
        "key": DEFINITION.format(steps=steps),
        "name": f"A chain of {steps} steps",
        "subject": None,
        "settings": {},
        "nodes": nodes,
        "edges": edges,
    }


class Contestant(Contender):
    """A worker and a caller in one process, on the tables of a freshly migrated database."""

    async def setup(self, servers: Servers) -> None:
        """Migrates the database, registers the action, starts the worker."""
        settings = Settings(
            database_url=servers.database_url,
            temporal_address=servers.temporal_address,
            temporal_namespace=servers.temporal_namespace,
            # Two of us can share one Temporal: the database is each one's own.
            task_queue=urlsplit(servers.database_url).path.strip("/"),
        )
        self._published: set[int] = set()
        self._sample: dict[Load, list[str]] = {}
        self._running = AsyncExitStack()
        self._almanac = self._running.enter_context(Almanac(settings, registry=REGISTRY))
        await asyncio.to_thread(self._almanac.migrate)
        self._client = await connect(settings)
        await self._running.enter_async_context(
            running_worker(settings, REGISTRY, client=self._client)
        )
        self._endings = await self._running.enter_async_context(Endings(settings))
        worker = settings.worker.model_dump(mode="json")
        self.facts = {"temporalio": version("temporalio"), "worker": worker}

    async def run(self, load: Load) -> float:
        """Publishes the graph of this length unless done, runs the load, checks the tables."""
        await self._publish(load.steps)
        self._ulids: list[str] = []
        seconds = await drive(load, self._chain)
        wrong = await self._endings.fetch(_WRONG, self._ulids, load.steps, load.chain_total)
        if wrong is not None:
            raise WrongResult(f"not {load.steps} steps with sum {load.chain_total}: {dict(wrong)}")
        self._sample[load] = [*self._ulids, *self._sample.get(load, ())][: footprint.SAMPLE]
        return seconds

    async def teardown(self) -> None:
        """Stops the worker; leaves in ``extra`` what it has written per step and per instance."""
        running: AsyncExitStack | None = getattr(self, "_running", None)
        if running is None:
            return
        if hasattr(self, "_endings"):
            await self._look_back()
        await running.aclose()

    async def _look_back(self) -> None:
        self._sample.pop(WARM_UP, None)
        self.extra = {
            **await footprint.tables(self._endings),
            "temporal": await footprint.history(self._client, self._sample),
        }

    async def _publish(self, steps: int) -> None:
        """Publishes :func:`chain_graph` of that length once; outside of what is timed."""
        if steps not in self._published:
            await asyncio.to_thread(self._almanac.publish, chain_graph(steps))
            self._published.add(steps)

    async def _chain(self, steps: int) -> int:
        """Starts one instance and waits for its end; the outputs are read from the tables after."""
        started = await asyncio.to_thread(self._almanac.start, DEFINITION.format(steps=steps))
        self._ulids.append(started.ulid)
        await self._endings.wait(started.ulid)
        return steps * (steps - 1) // 2
