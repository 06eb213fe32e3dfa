"""The record twice: in PostgreSQL and in memory, with the same things to be done to either."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import psycopg

from adapter.graph.compiled import compile_graph
from adapter.interpreter.children import Definition
from adapter.records.append import Appender
from adapter.records.awaited import Awaited
from adapter.records.connecting import make_database
from adapter.records.leases import Leases
from adapter.records.load import Loader
from adapter.records.look import Looker
from adapter.records.relaying import Relaying
from adapter.records.workers import Workers
from adapter.services.matching import match_events
from adapter.testing.graphs import BEGINNING, graphs
from adapter.testing.parts import MemoryConnection, MemoryParts, MemoryRelaying, Straight
from adapter.testing.record import MemoryRecord
from tests.execution.runtime import Runtime, open_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy import Engine

ABOUT_THE_INSTANCE = (
    "status",
    "current_node_id",
    "steps_count",
    "failure_code",
    "failed_node_id",
    "lock_version",
)
STEP = (
    "node_id",
    "node_type",
    "visit",
    "attempt",
    "status",
    "outcome",
    "error_code",
    "error_message",
    "output",
    "input",
    "claim_token",
    "idempotency_key",
    "started_at",
    "finished_at",
    "scheduled_for",
    "lease_until",
)
WAIT = ("kind", "event_key", "match", "outcome", "status", "due_at", "fired_at", "claim_token")
FIRST_OWN_ID = 10**9
"""The first id that memory gives to a row by itself; PostgreSQL's are lower."""

FIXED_CLOCK = """
CREATE SCHEMA clock;
CREATE TABLE clock.shows (at timestamptz NOT NULL);
INSERT INTO clock.shows VALUES ('2026-01-01T00:00:00Z');
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
  AS 'SELECT at FROM clock.shows';
DO $$
DECLARE found record;
BEGIN
  FOR found IN SELECT d.adrelid::regclass AS rel, a.attname AS name FROM pg_attrdef d
    JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE pg_get_expr(d.adbin, d.adrelid) ~ 'clock_timestamp|now\\(\\)'
  LOOP
    EXECUTE format('ALTER TABLE %s ALTER %I SET DEFAULT clock.clock_timestamp()',
      found.rel, found.name);
  END LOOP;
  EXECUTE format('ALTER DATABASE %I SET search_path = clock, pg_catalog, public',
    current_database());
END $$;
"""
"""Has the database take its clock from a table: both records then show the same time."""


class Side(Protocol):
    """One record; ids and times of day are its own."""

    connection: Any
    loader: Any
    appender: Any
    looker: Any
    awaited: Any
    leases: Any
    workers: Any
    relaying: Any

    async def start(self, key: str, payload: Any) -> str:
        """Starts an instance; returns its ulid."""
        ...

    async def tell(self, ulid: str, kind: str, payload: Any) -> int:
        """Writes an inbox row; returns its id."""
        ...

    async def emit(self, key: str, payload: Any) -> int:
        """Writes an event; returns its id."""
        ...

    async def match(self) -> int:
        """Matches events; returns how many."""
        ...

    async def beat(self, worker: str) -> None:
        """Gives a sign of life."""
        ...

    async def leave(self, worker: str) -> None:
        """Has a worker stop on purpose."""
        ...

    async def age(self, seconds: float) -> None:
        """Sets the clock forward."""
        ...

    async def id_of(self, ulid: str) -> int:
        """The id of an instance."""
        ...

    async def rows(self, ulid: str) -> dict[str, Any]:
        """What stands in the rows of an instance."""
        ...

    async def ulids(self) -> list[str]:
        """All instances, in the order of their ids."""
        ...


@dataclass
class RealSide:
    """The record in PostgreSQL."""

    runtime: Runtime
    connection: Any
    database: Engine
    definitions: dict[str, Definition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.runtime.settings
        self.loader, self.appender = Loader(settings), Appender(settings)
        self.looker, self.awaited = Looker(settings), Awaited(settings)
        self.leases, self.workers = Leases(settings), Workers(settings)
        self.relaying = Relaying(settings)

    async def publish(self, key: str, document: dict[str, Any]) -> None:
        version = await self.runtime.publish(document)
        definition = await self.connection.fetchval(
            "UPDATE workflow_definitions d SET key = $1, current_version_id = $2"
            " FROM workflow_versions v WHERE v.id = $2 AND d.id = v.definition_id"
            " RETURNING d.id",
            key,
            version,
        )
        self.definitions[key] = Definition(definition, version, "system")

    async def start(self, key: str, payload: Any) -> str:
        return await self.runtime.start(self.definitions[key].version, payload)

    async def tell(self, ulid: str, kind: str, payload: Any) -> int:
        await self.runtime.tell(ulid, kind, payload)
        return int(await self.connection.fetchval("SELECT max(id) FROM workflow_inbox"))

    async def emit(self, key: str, payload: Any) -> int:
        return int(await self.runtime.emit(key, payload))

    async def match(self) -> int:
        def match() -> int:
            with self.database.begin() as connection:
                return match_events(connection, self.runtime.settings).events

        return await asyncio.to_thread(match)

    async def beat(self, worker: str) -> None:
        await self.workers.beat(self.connection, worker, name="w", task_queue="q", details={})

    async def leave(self, worker: str) -> None:
        await self.workers.leave(self.connection, worker)

    async def age(self, seconds: float) -> None:
        await self.connection.execute(
            "UPDATE clock.shows SET at = at + make_interval(secs => $1)", float(seconds)
        )

    async def id_of(self, ulid: str) -> int:
        return int((await self.runtime.instance(ulid))["id"])

    async def rows(self, ulid: str) -> dict[str, Any]:
        runtime = self.runtime
        steps = {row["id"]: row for row in await runtime.rows("step_runs", ulid)}
        waits = {row["id"]: row for row in await runtime.rows("waits", ulid)}
        journal = await runtime.rows("journal", ulid)
        inbox = await runtime.rows("inbox", ulid)
        return {
            **_shown(
                await runtime.instance(ulid),
                steps,
                waits,
                [(r["seq"], r["kind"], r["node_id"], r["writer"], r["data"]) for r in journal],
            ),
            "inbox": sorted(
                _told(r["kind"], r["payload"], r["event_id"], r["applied_at"], r["result"])
                for r in inbox
            ),
            "poked": sum(row["poked_at"] is not None for row in inbox if not row["applied_at"]),
        }

    async def ulids(self) -> list[str]:
        rows = await self.connection.fetch("SELECT ulid FROM workflow_instances ORDER BY id")
        return [row["ulid"] for row in rows]


@dataclass
class MemorySide:
    """The record in memory."""

    record: MemoryRecord
    connection: Any = field(default_factory=MemoryConnection)

    def __post_init__(self) -> None:
        parts: Any = MemoryParts(self.record, Straight())
        self.loader = self.appender = self.looker = parts
        self.awaited = self.leases = self.workers = parts
        self.relaying = MemoryRelaying(self.record, Straight())

    async def start(self, key: str, payload: Any) -> str:
        return self.record.start(key, payload)

    async def tell(self, ulid: str, kind: str, payload: Any) -> int:
        return self.record.tell(self.record.by_ulid[ulid].id, kind, payload)

    async def emit(self, key: str, payload: Any) -> int:
        return self.record.emit(key, payload)

    async def match(self) -> int:
        return self.record.match()

    async def beat(self, worker: str) -> None:
        _, stopped = self.record.workers.get(worker, (0.0, False))
        self.record.workers[worker] = (self.record.seconds, stopped)

    async def leave(self, worker: str) -> None:
        self.record.workers[worker] = (self.record.workers[worker][0], True)

    async def age(self, seconds: float) -> None:
        self.record.jump(seconds)

    async def id_of(self, ulid: str) -> int:
        return self.record.by_ulid[ulid].id

    async def rows(self, ulid: str) -> dict[str, Any]:
        row = self.record.by_ulid[ulid]
        journal = [(r.seq, r.kind, r.node, r.writer, r.entry.data) for r in row.journal]
        inbox = row.inbox.values()
        return {
            **_shown(
                {**row.columns, "lock_version": row.lock_version}, row.steps, row.waits, journal
            ),
            "inbox": sorted(
                _told(r.kind, r.payload, r.event, True if r.applied else None, r.result)
                for r in inbox
            ),
            "poked": sum(r.poked_at is not None for r in inbox if not r.applied),
        }

    async def ulids(self) -> list[str]:
        return [row.ulid for row in sorted(self.record.instances.values(), key=lambda r: r.id)]


def _shown(instance: Any, steps: Any, waits: Any, journal: list[Any]) -> dict[str, Any]:
    return {
        "instance": {name: instance.get(name) for name in ABOUT_THE_INSTANCE},
        "steps": {key: _picked(row, STEP) for key, row in sorted(steps.items())},
        "waits": {key: _picked(row, WAIT) for key, row in sorted(waits.items())},
        "journal": [
            (seq, kind, node, writer, {k: v for k, v in data.items() if k != "snapshot"})
            for seq, kind, node, writer, data in journal
        ],
    }


def _picked(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row.get(name) for name in names}


def _told(kind: str, payload: Any, event: Any, applied: Any, result: Any) -> str:
    kept = {k: v for k, v in (payload or {}).items() if k not in ("snapshot", "after")}
    told = [kind, kept, event, applied is not None, result]
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()


@asynccontextmanager
async def real_side(database_url: str) -> AsyncIterator[RealSide]:
    """PostgreSQL, with all simulated graphs published; its clock stands unless it is set."""
    with psycopg.connect(database_url, autocommit=True) as plain:
        plain.execute(FIXED_CLOCK)
    async with open_runtime(database_url) as runtime, runtime.pool.acquire() as connection:
        database = make_database(runtime.settings, pool_size=1)
        side = RealSide(runtime, connection, database)
        for key, document in graphs().items():
            if key != BEGINNING:
                await side.publish(key, document)
        yield side
        database.dispose()


def memory_side() -> MemorySide:
    """Memory, with all simulated graphs published; its clock stands unless it is set."""
    record = MemoryRecord(lambda: 0.0, numbers=itertools.count(FIRST_OWN_ID))
    for key, document in graphs().items():
        if key != BEGINNING:
            record.publish(key, compile_graph(document))
    return MemorySide(record)


def twin(real: RealSide) -> MemorySide:
    """Memory in which definitions and versions have the ids that they have in PostgreSQL."""
    side = memory_side()
    record = side.record
    compiled = {key: record.graphs[int(made.version)] for key, made in record.definitions.items()}
    record.definitions = dict(real.definitions)
    record.graphs = {int(made.version): compiled[key] for key, made in real.definitions.items()}
    return side
