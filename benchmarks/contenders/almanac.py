"""Almanac: a published graph of action nodes; each step is one commit to the documented tables."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from benchmarks.contenders.contract import Contender, Servers, drive
from benchmarks.errors import NotInstalled

if TYPE_CHECKING:
    from benchmarks.loads import Load

DEFINITION: Final = "benchmark.chain.{steps}"


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
        raise NotInstalled("the runtime is not there yet")

    async def run(self, load: Load) -> float:
        """Publishes the graph of this length unless done, runs the load, checks the tables."""
        await self._publish(load.steps)
        seconds = await drive(load, self._chain)
        await self._check(load)
        return seconds

    async def teardown(self) -> None:
        """Stops the worker; leaves in ``extra`` what the tables tell: rows per step, bytes."""

    async def _publish(self, steps: int) -> None:
        """Publishes :func:`chain_graph` of that length once; outside of what is timed."""
        raise NotImplementedError

    async def _chain(self, steps: int) -> int:
        """Starts one instance, waits for its end, returns the sum of the ``n`` of its outputs."""
        raise NotImplementedError

    async def _check(self, load: Load) -> None:
        """Raises WrongResult unless each instance has ``load.steps`` succeeded step runs."""
        raise NotImplementedError
