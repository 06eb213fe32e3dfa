"""Processes, published graphs and instances for tests of turns: a real record, no Temporal."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from ulid import ULID

from adapter.execution.deps import TurnDeps, turn_deps
from adapter.execution.registry import Registry
from adapter.execution.runner import HandlerRunner
from adapter.execution.turn import TurnResult, take_turn
from adapter.graph.canonical import checksum
from adapter.records.pooling import make_pool
from adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


def graph(*nodes: Mapping[str, Any], edges: list[Any], key: str = "test") -> dict[str, Any]:
    """A document: a manual trigger ``trigger`` and the nodes; edges as (from, to) or as they are."""
    return {
        "schema": "roundly.workflows.graph/v1",
        "key": key,
        "name": key,
        "nodes": [{"id": "trigger", "type": "trigger", "config": {"type": "manual"}}, *nodes],
        "edges": [
            {"from": edge[0], "to": edge[1]} if isinstance(edge, tuple) else edge for edge in edges
        ],
    }


def action(node: str, name: str, **more: Any) -> dict[str, Any]:
    """An action node; ``input`` and other parts of the node by keyword."""
    config = {"action": name, **({"input": more.pop("input")} if "input" in more else {})}
    return {"id": node, "type": "action", "config": config, **more}


def chain(*nodes: Mapping[str, Any]) -> dict[str, Any]:
    """A document in which every node leads to the next."""
    ids = ["trigger", *(node["id"] for node in nodes)]
    return graph(*nodes, edges=list(itertools.pairwise(ids)))


@dataclass(slots=True)
class Runtime:
    """One database and any number of processes that work on it."""

    settings: Settings
    pool: Any
    registry: Registry = field(default_factory=Registry)
    runners: list[HandlerRunner] = field(default_factory=list)

    def process(self, **settings: Any) -> TurnDeps:
        """A worker process of its own: caches, handlers and id; settings of ``worker`` by name."""
        runner = HandlerRunner()
        runner.start()
        self.runners.append(runner)
        worker = self.settings.worker.model_copy(update=settings)
        return turn_deps(
            self.settings.model_copy(update={"worker": worker}),
            self.pool,
            worker=str(ULID()),
            registry=self.registry,
            runner=runner,
            new_token=lambda: str(ULID()),
        )

    async def publish(self, document: dict[str, Any]) -> int:
        """Writes a definition with one published version; returns the version's id."""
        definition = await self.pool.fetchval(
            "INSERT INTO workflow_definitions (key, name, owner_scope, status)"
            " VALUES ($1, 'test', '*', 'active') RETURNING id",
            str(ULID()),
        )
        version: int = await self.pool.fetchval(
            "INSERT INTO workflow_versions (definition_id, number, status, schema_version, graph,"
            " trigger, settings, trigger_type, actor_mode, checksum, published_at) VALUES ($1, 1,"
            " 'published', 'roundly.workflows.graph/v1', $2, '{}', '{}', 'manual', 'system', $3,"
            " now()) RETURNING id",
            definition,
            orjson.dumps(document).decode(),
            checksum(document),
        )
        for node in document["nodes"]:
            if node["type"] == "wait" and "event" in node["config"]:
                await self.pool.execute(
                    "INSERT INTO workflow_event_fields (event_key, epoch, fields) SELECT $1::varchar,"
                    " coalesce(max(epoch), 0) + 1, $2::text[] FROM workflow_event_fields"
                    " WHERE event_key = $1 ON CONFLICT DO NOTHING",
                    node["config"]["event"],
                    sorted(node["config"].get("match", {})),
                )
        return version

    async def start(self, version: int, payload: Any = None) -> str:
        """Writes a new instance with its start row; returns the ulid."""
        ulid = str(ULID())
        await self.pool.execute(
            "WITH i AS (INSERT INTO workflow_instances (ulid, definition_id, version_id,"
            " trigger_type, trigger_payload, status, actor_mode) SELECT $1, definition_id, id,"
            " 'manual', $3, 'pending', 'system' FROM workflow_versions WHERE id = $2 RETURNING id)"
            " INSERT INTO workflow_inbox (instance_id, kind, payload) SELECT i.id, 'start',"
            " jsonb_build_object('snapshot', pg_current_snapshot()::text) FROM i",
            ulid,
            version,
            orjson.dumps(payload).decode(),
        )
        return ulid

    async def begun(self, document: dict[str, Any], payload: Any = None) -> str:
        """Publishes and starts."""
        return await self.start(await self.publish(document), payload)

    async def emit(self, key: str, payload: dict[str, Any], connection: Any = None) -> int:
        """Writes an event as ``emit`` does; returns its id."""
        event: int = await (connection or self.pool).fetchval(
            "INSERT INTO workflow_events (key, owner_scope, payload, epoch, digests)"
            " SELECT $1::varchar, '*', $2::jsonb, coalesce(max(f.epoch), 0), coalesce(array_agg("
            " md5($1 || chr(10) || (SELECT coalesce(jsonb_object_agg(n, $2::jsonb -> n), '{}')"
            " FROM unnest(f.fields) n)::text)::uuid) FILTER (WHERE f.epoch IS NOT NULL), '{}')"
            " FROM workflow_event_fields f WHERE f.event_key = $1 RETURNING id",
            key,
            orjson.dumps(payload).decode(),
        )
        return event

    async def finish(self, deps: TurnDeps, ulid: str, *, turns: int = 200) -> TurnResult:
        """Takes turns until the instance has ended or waits for something."""
        for _ in range(turns):
            result = await take_turn(deps, ulid)
            if not result.more:
                return result
        raise AssertionError(f"instance {ulid} was not done after {turns} turns: {result}")

    async def steps(self, ulid: str) -> list[tuple[str, int, str]]:
        """(node, attempt, status) of each step run of an instance, by id."""
        rows = await self.pool.fetch(
            "SELECT s.node_id, s.attempt, s.status FROM workflow_step_runs s"
            " JOIN workflow_instances i ON i.id = s.instance_id WHERE i.ulid = $1 ORDER BY s.id",
            ulid,
        )
        return [(r["node_id"], r["attempt"], r["status"]) for r in rows]

    async def instance(self, ulid: str) -> dict[str, Any]:
        """The instance's row."""
        return dict(
            await self.pool.fetchrow("SELECT * FROM workflow_instances WHERE ulid = $1", ulid)
        )

    async def journal(self, ulid: str) -> list[str]:
        """The kinds of the journal, in order."""
        rows = await self.pool.fetch(
            "SELECT j.kind FROM workflow_journal j JOIN workflow_instances i ON i.id ="
            " j.instance_id WHERE i.ulid = $1 ORDER BY j.seq",
            ulid,
        )
        return [r["kind"] for r in rows]


@asynccontextmanager
async def open_runtime(database_url: str) -> AsyncIterator[Runtime]:
    """A runtime on a migrated database."""
    settings = Settings(database_url=database_url)
    pool = await make_pool(settings, 8)
    runtime = Runtime(settings, pool)
    try:
        yield runtime
    finally:
        for runner in runtime.runners:
            runner.stop()
        await pool.close()
