"""Processes, published graphs and instances for tests of turns: a real record, no Temporal."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from ulid import ULID

from adapter.execution.deps import TurnDeps, turn_deps
from adapter.execution.registry import Registry
from adapter.execution.runner import HandlerRunner
from adapter.graph.canonical import canonical, checksum
from adapter.records.digests import digests_of
from adapter.records.pooling import make_pool
from adapter.settings import Limits, Settings, StepsInput
from tests.driving.turns import take_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from adapter.execution.turned import TurnResult


def graph(*nodes: Mapping[str, Any], edges: list[Any], key: str = "test") -> dict[str, Any]:
    """A document with a manual trigger ``trigger``; edges as (from, to) or as they are."""
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

    def limit(self, limits: Limits, *, steps_input: int | None = None) -> None:
        """Sets limits for the processes that are made from now on."""
        update: dict[str, Any] = {"limits": limits}
        if steps_input is not None:
            update["steps_input"] = StepsInput(max_bytes=steps_input)
        self.settings = self.settings.model_copy(update=update)

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

    async def publish(self, document: dict[str, Any], *, actor_mode: str = "system") -> Any:
        """Writes a definition with one published version; returns the version's id."""
        version = await self.version_of(document, actor_mode=actor_mode)
        await self.learn(document)
        return version

    async def version_of(self, document: dict[str, Any], *, actor_mode: str = "system") -> Any:
        """As ``publish``, but no event has heard of the fields that waits match on yet."""
        names = self.settings.tables
        definition = await self.pool.fetchval(
            f"INSERT INTO {names.definitions} (key, name, owner_scope, status)"
            " VALUES ($1, 'test', '*', 'active') RETURNING id",
            str(ULID()),
        )
        return await self.pool.fetchval(
            f"INSERT INTO {names.versions} (definition_id, number, status, schema_version, graph,"
            " trigger, settings, trigger_type, actor_mode, checksum, published_at) VALUES ($1, 1,"
            " 'published', 'roundly.workflows.graph/v1', $2, '{}', '{}', 'manual', $4, $3,"
            " now()) RETURNING id",
            definition,
            orjson.dumps(document).decode(),
            checksum(document),
            actor_mode,
        )

    async def learn(self, document: dict[str, Any]) -> None:
        """Writes down the fields that the document's waits match on."""
        table = self.settings.tables.event_fields
        for node in document["nodes"]:
            if node["type"] == "wait" and "event" in node["config"]:
                await self.pool.execute(
                    f"INSERT INTO {table} (event_key, epoch, fields) SELECT $1::varchar,"
                    f" coalesce(max(epoch), 0) + 1, $2::text[] FROM {table}"
                    " WHERE event_key = $1 ON CONFLICT DO NOTHING",
                    node["config"]["event"],
                    sorted(node["config"].get("match", {})),
                )

    async def start(self, version: Any, payload: Any = None, **columns: Any) -> str:
        """Writes a new instance with its start row, more of its columns by name; gives its ulid."""
        names = self.settings.tables
        ulid = str(ULID())
        more = "".join(f", {column}" for column in columns)
        values = "".join(f", ${n}" for n in range(4, 4 + len(columns)))
        await self.pool.execute(
            f"WITH i AS (INSERT INTO {names.instances} (ulid, definition_id, version_id,"
            f" trigger_type, trigger_payload, status, actor_mode{more}) SELECT $1, definition_id,"
            f" id, 'manual', $3, 'pending', actor_mode{values} FROM {names.versions} WHERE id = $2"
            f" RETURNING id) INSERT INTO {names.inbox} (instance_id, kind, payload) SELECT i.id,"
            " 'start', jsonb_build_object('snapshot', pg_current_snapshot()::text) FROM i",
            ulid,
            version,
            orjson.dumps(payload).decode(),
            *columns.values(),
        )
        return ulid

    async def begun(self, document: dict[str, Any], payload: Any = None) -> str:
        """Publishes and starts."""
        return await self.start(await self.publish(document), payload)

    async def emit(
        self, key: str, payload: dict[str, Any], connection: Any = None, *, owner_scope: str = "*"
    ) -> Any:
        """Writes an event as ``emit`` does; returns its id."""
        names = self.settings.tables
        digests = digests_of(names.event_fields, key="e.key", payload="e.payload")
        return await (connection or self.pool).fetchval(
            f"INSERT INTO {names.events} (key, owner_scope, payload, epoch, digests)"
            " SELECT e.key, $3, e.payload, f.epoch, f.digests FROM (SELECT $1::varchar AS key,"
            f" $2::jsonb AS payload OFFSET 0) e CROSS JOIN LATERAL ({digests}) f RETURNING id",
            key,
            orjson.dumps(canonical(payload)).decode(),
            owner_scope,
        )

    async def deliver(self, ulid: str, event: Any) -> None:
        """Writes the inbox row of an event, as matching does."""
        names = self.settings.tables
        await self.pool.execute(
            f"INSERT INTO {names.inbox} (instance_id, kind, event_id)"
            f" SELECT id, 'event', $2 FROM {names.instances} WHERE ulid = $1",
            ulid,
            event,
        )

    async def jump(self, ulid: str) -> None:
        """Moves an instance's past back to where what it waits for has just fallen due.

        Times are in the journal, which the database lets nobody change: as after a jump of its
        clock, all of them move together.
        """
        names = self.settings.tables
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(
                f"UPDATE {names.journal} j SET data = jsonb_set(j.data, '{{due_at}}',"
                " to_jsonb(clock_timestamp())) FROM"
                f" {names.instances} i WHERE i.id = j.instance_id AND i.ulid = $1"
                " AND j.data ? 'due_at' AND (j.data ->> 'due_at')::timestamptz > clock_timestamp()",
                ulid,
            )

    async def planned(self, ulid: str) -> list[float]:
        """How many seconds after its predecessor each further attempt was to begin."""
        rows = await self.rows("step_runs", ulid)
        return [
            (row["scheduled_for"] - before["finished_at"]).total_seconds()
            for before, row in itertools.pairwise(rows)
            if row["scheduled_for"] is not None
        ]

    async def tell(self, ulid: str, kind: str, payload: Any) -> None:
        """Writes an inbox row."""
        names = self.settings.tables
        await self.pool.execute(
            f"INSERT INTO {names.inbox} (instance_id, kind, payload)"
            f" SELECT id, $2, $3 FROM {names.instances} WHERE ulid = $1",
            ulid,
            kind,
            None if payload is None else orjson.dumps(payload).decode(),
        )

    async def finish(self, deps: TurnDeps, ulid: str, *, turns: int = 200) -> TurnResult:
        """Takes turns until the instance has ended or waits for something."""
        for _ in range(turns):
            result = await take_turn(deps, ulid)
            if not result.more:
                return result
        raise AssertionError(f"instance {ulid} was not done after {turns} turns: {result}")

    async def drive(
        self, deps: TurnDeps, ulid: str, *, until: str = "", turns: int = 200
    ) -> TurnResult:
        """Takes turns as a driver does, until only an event can help or a status is reached."""
        for _ in range(turns):
            result = await take_turn(deps, ulid)
            if result.ended or result.status == until or not (result.more or result.delay):
                return result
            if not result.more:
                await asyncio.sleep(result.delay or 0)
        raise AssertionError(f"instance {ulid} was not done after {turns} turns: {result}")

    async def ran(self, document: dict[str, Any], payload: Any = None) -> str:
        """Publishes, starts and finishes in a process of its own; returns the ulid."""
        ulid = await self.begun(document, payload)
        await self.finish(self.process(), ulid)
        return ulid

    async def rows(self, table: str, ulid: str) -> list[dict[str, Any]]:
        """The rows of an instance in a table (by its name in the settings), in their order."""
        names = self.settings.tables
        rows = await self.pool.fetch(
            f"SELECT t.* FROM {getattr(names, table)} t JOIN {names.instances} i"
            f" ON i.id = t.instance_id WHERE i.ulid = $1"
            f" ORDER BY t.{'seq' if table == 'journal' else 'id'}",
            ulid,
        )
        return [_decoded(row) for row in rows]

    async def step(self, ulid: str, node: str) -> dict[str, Any]:
        """The latest step run of a node."""
        return [row for row in await self.rows("step_runs", ulid) if row["node_id"] == node][-1]

    async def steps(self, ulid: str) -> list[tuple[str, int, str]]:
        """(node, attempt, status) of each step run of an instance, by id."""
        rows = await self.rows("step_runs", ulid)
        return [(r["node_id"], r["attempt"], r["status"]) for r in rows]

    async def path(self, ulid: str) -> list[tuple[str, str | None, str | None, str]]:
        """(node, outcome, next node, why) of each departure from a node."""
        return [
            (r["node_id"], r["data"].get("outcome"), edge["to"], edge["by"])
            for r in await self.rows("journal", ulid)
            if (edge := r["data"].get("edge"))
        ]

    async def instance(self, ulid: str) -> dict[str, Any]:
        """The instance's row."""
        table = self.settings.tables.instances
        return _decoded(await self.pool.fetchrow(f"SELECT * FROM {table} WHERE ulid = $1", ulid))

    async def journal(self, ulid: str) -> list[str]:
        """The kinds of the journal, in order."""
        return [row["kind"] for row in await self.rows("journal", ulid)]


_JSON = {"condition", "data", "input", "match", "output", "payload", "result", "trigger_payload"}


def _decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: orjson.loads(value) if name in _JSON and value is not None else value
        for name, value in row.items()
    }


@asynccontextmanager
async def open_runtime(
    database_url: str, settings: Settings | None = None
) -> AsyncIterator[Runtime]:
    """A runtime on a migrated database; ``settings`` if it was not made with the default ones."""
    settings = (settings or Settings()).model_copy(update={"database_url": database_url})
    pool = await make_pool(settings, 8)
    runtime = Runtime(settings, pool)
    try:
        yield runtime
    finally:
        for runner in runtime.runners:
            runner.stop()
        await pool.close()
