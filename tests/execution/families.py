"""Parents and children for tests: definitions under keys, and what a relay and drivers do."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

from ulid import ULID

from tests.driving.turns import take_turn
from tests.execution.runtime import graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapter.client.almanac import Almanac
    from adapter.execution.deps import TurnDeps
    from adapter.execution.turned import TurnResult
    from tests.execution.runtime import Runtime


HOLD: dict[str, Any] = {"id": "hold", "type": "wait", "config": {"signal": "go"}}
GO = {"name": "go", "payload": None}


def starting(workflow: str, node: str = "call", **config: Any) -> dict[str, Any]:
    """A ``start_workflow`` node."""
    return {"id": node, "type": "start_workflow", "config": {"workflow": workflow, **config}}


def ending(output: Any, node: str = "end", **config: Any) -> dict[str, Any]:
    """An ``end`` node."""
    return {"id": node, "type": "end", "config": {"output": output, **config}}


def line(*nodes: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A document in which every node leads to the next."""
    ids = ["trigger", *(node["id"] for node in nodes)]
    return graph(*nodes, edges=list(itertools.pairwise(ids)), key=key)


def by_trigger() -> dict[str, Any]:
    """A child that completes, fails or waits, as it is told."""
    decide = {"id": "do", "type": "decision", "config": {"on": "${ trigger.do }"}}
    return graph(
        decide,
        HOLD,
        ending("fine"),
        ending(None, node="bad", status="failed"),
        edges=[
            ("trigger", "do"),
            {"from": "do", "to": "end", "on": "c"},
            {"from": "do", "to": "bad", "on": "f"},
            {"from": "do", "to": "hold", "on": "?"},
            ("hold", "end"),
        ],
        key="child",
    )


class Family:
    """Instances that start each other, on one record.

    Keys of definitions are made unique, so that tests may share a database.
    """

    def __init__(self, runtime: Runtime, almanac: Almanac, **owner: Any) -> None:
        self.runtime = runtime
        self.almanac = almanac
        self.owner = owner
        self.suffix = str(ULID()).lower()
        self.nudges = 0

    def key(self, name: str) -> str:
        """The key under which a definition is known in this test."""
        return f"{name}-{self.suffix}"

    def process(self) -> TurnDeps:
        """A worker process that counts its nudges."""
        deps = self.runtime.process()

        def nudge() -> None:
            self.nudges += 1

        deps.nudge = nudge
        return deps

    async def call(self, function: Any, *arguments: Any, **more: Any) -> Any:
        """Calls the SDK in a thread."""
        return await asyncio.to_thread(partial(function, *arguments, **more))

    async def publish(self, *nodes: Mapping[str, Any], name: str, **more: Any) -> None:
        """Publishes a line of nodes; ``workflow`` of its starts is one of this test's names."""
        await self.publish_graph({**line(*nodes, key=name), **more})

    async def publish_graph(self, document: dict[str, Any]) -> None:
        """Publishes a document under a key of this test's own."""
        nodes = [
            {**node, "config": {**node["config"], "workflow": self.key(node["config"]["workflow"])}}
            if node["type"] == "start_workflow"
            else node
            for node in document["nodes"]
        ]
        made = {**document, "nodes": nodes, "key": self.key(document["key"])}
        await self.call(self.almanac.publish, made, **self.owner)

    async def start(self, name: str, payload: Any = None, **more: Any) -> str:
        """Starts an instance; returns its ulid."""
        more = {**self.owner, **more}
        started = await self.call(self.almanac.start, self.key(name), payload, **more)
        return str(started.ulid)

    async def settle(self, deps: TurnDeps, *roots: str, rounds: int = 400) -> None:
        """Takes turns as relay and drivers do, until nothing is left to be told or done."""
        for _ in range(rounds):
            told = await self.told(*roots)
            if not told:
                return
            for ulid in told:
                await self.turns(deps, ulid)
        raise AssertionError(f"{roots} are not done after {rounds} rounds")

    async def turns(self, deps: TurnDeps, ulid: str, rounds: int = 200) -> TurnResult:
        """Takes turns of one instance until it has ended or waits for something."""
        return await self.runtime.finish(deps, ulid, turns=rounds)

    async def told(self, *roots: str) -> list[str]:
        """Instances of these families with unapplied inbox rows."""
        n = self.runtime.settings.tables
        rows = await self.runtime.pool.fetch(
            f"SELECT DISTINCT i.ulid FROM {n.instances} i JOIN {n.inbox} b ON b.instance_id = i.id"
            f" JOIN {n.instances} r ON r.id = i.root_instance_id"
            " WHERE b.applied_at IS NULL AND r.ulid = ANY ($1::bpchar[]) ORDER BY i.ulid",
            list(roots),
        )
        return [row["ulid"] for row in rows]

    async def children(self, parent: str) -> list[dict[str, Any]]:
        """The rows of an instance's children, in the order of their ids."""
        n = self.runtime.settings.tables
        rows = await self.runtime.pool.fetch(
            f"SELECT c.ulid FROM {n.instances} c JOIN {n.instances} p"
            " ON p.id = c.parent_instance_id WHERE p.ulid = $1 ORDER BY c.id",
            parent,
        )
        return [await self.runtime.instance(row["ulid"]) for row in rows]

    async def statuses(self, parent: str) -> list[str]:
        """The statuses of an instance's children, in the order of their ids."""
        return [child["status"] for child in await self.children(parent)]

    async def status(self, ulid: str) -> str:
        """An instance's status."""
        return str((await self.runtime.instance(ulid))["status"])

    async def output(self, ulid: str, node: str = "call") -> Any:
        """The output of the latest step run of a node."""
        return (await self.runtime.step(ulid, node))["output"]

    async def cancel(self, ulid: str) -> None:
        """Has an instance cancelled."""
        await self.runtime.tell(ulid, "cancel", {})


async def one_turn(deps: TurnDeps, ulid: str) -> TurnResult:
    """Takes exactly one turn."""
    return await take_turn(deps, ulid)
