"""Places where a test stops, breaks or watches a turn; none of them stands in for the database."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ulid import ULID

from adapter.interpreter.apply import fold
from adapter.interpreter.projection import project
from adapter.interpreter.state import State
from adapter.records.append import Appended, Appender
from adapter.records.load import Loader

if TYPE_CHECKING:
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.state import Key
    from adapter.settings import Settings
    from tests.execution.runtime import Runtime

PATIENCE = 20.0


class Held:
    """A handler whose calls stop until they are let go: ``registry.action("x")(held.handler)``.

    Args:
        only: How many calls stop; those after them return at once.
    """

    def __init__(self, only: int = 1_000) -> None:
        self.calls = 0
        self._only = only
        self._reached = threading.Semaphore(0)
        self._open = threading.Event()

    def handler(self) -> int:
        self.calls += 1
        call = self.calls
        self._reached.release()
        assert call > self._only or self._open.wait(PATIENCE)
        return call

    async def reached(self) -> None:
        """Waits until the handler was called once more."""
        assert await asyncio.to_thread(self._reached.acquire, True, PATIENCE)

    def let_go(self) -> None:
        self._open.set()


class FaultyAppender(Appender):
    """Breaks off at the n-th append, right before it is sent or right after it was committed."""

    def __init__(self, settings: Settings, at: int, when: Literal["before", "after"]) -> None:
        super().__init__(settings)
        self.at = at
        self.when = when
        self.calls = 0

    async def append(self, connection: Any, **arguments: Any) -> Appended | None:
        self.calls += 1
        if self.calls == self.at and self.when == "before":
            raise ConnectionResetError("the connection broke before the append")
        appended = await super().append(connection, **arguments)
        if self.calls == self.at:
            raise ConnectionResetError("the connection broke after the append")
        return appended


class StoppedAppender(Appender):
    """Stops before its n-th append until it is let go, as a process that was suspended."""

    def __init__(self, settings: Settings, at: int) -> None:
        super().__init__(settings)
        self.at = at
        self.calls = 0
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()

    async def append(self, connection: Any, **arguments: Any) -> Appended | None:
        self.calls += 1
        if self.calls == self.at:
            self.reached.set()
            await asyncio.wait_for(self.let_go.wait(), PATIENCE)
        return await super().append(connection, **arguments)


@dataclass(slots=True)
class Hand:
    """Appends chosen entries as a turn appends decided ones."""

    runtime: Runtime
    ulid: str
    id: Key
    appender: Appender
    state: State = field(default_factory=State)
    writer: str = field(default_factory=lambda: str(ULID()))

    @classmethod
    async def on(cls, runtime: Runtime, ulid: str) -> Hand:
        """A writer that has folded everything so far."""
        async with runtime.pool.acquire() as connection:
            loaded = await Loader(runtime.settings).load(connection, ulid)
        appender = Appender(runtime.settings)
        return cls(runtime, ulid, loaded.id, appender, fold(loaded.entries))

    async def append(self, *entries: Entry, connection: Any = None) -> Appended | None:
        """Appends; folds the entries when they were taken."""
        after = fold(entries, self.state)
        arguments: dict[str, Any] = {
            "instance": self.id,
            "expected_seq": self.state.seq,
            "entries": entries,
            "changes": project(self.state, entries, after, ulid=self.ulid, writer=self.writer),
            "writer": self.writer,
        }
        if connection is not None:
            appended = await self.appender.append(connection, **arguments)
        else:
            async with self.runtime.pool.acquire() as own:
                appended = await self.appender.append(own, **arguments)
        if appended is not None:
            self.state = after
        return appended

    async def step_id(self) -> int:
        return await self._next("workflow_step_runs")

    async def wait_id(self) -> int:
        return await self._next("workflow_waits")

    async def _next(self, table: str) -> int:
        value: int = await self.runtime.pool.fetchval(
            "SELECT nextval(pg_get_serial_sequence($1, 'id')::regclass)", table
        )
        return value


async def record(runtime: Runtime, ulid: str) -> dict[str, Any]:
    """What the record says of an instance, but for times, ids, tokens and lost attempts."""
    steps = await runtime.pool.fetch(
        "SELECT s.node_id, s.node_type, s.visit, s.status, s.outcome, s.input, s.output,"
        " s.error_code, s.error_message, s.error_retryable FROM workflow_step_runs s"
        " JOIN workflow_instances i ON i.id = s.instance_id"
        " WHERE i.ulid = $1 AND s.status <> 'lost' ORDER BY s.id",
        ulid,
    )
    waits = await runtime.pool.fetch(
        "SELECT w.kind, w.event_key, w.match, w.condition, w.outcome, w.status, w.payload"
        " FROM workflow_waits w JOIN workflow_instances i ON i.id = w.instance_id"
        " WHERE i.ulid = $1 ORDER BY w.step_run_id, w.id",
        ulid,
    )
    inbox = await runtime.pool.fetch(
        "SELECT b.kind, b.applied_at IS NOT NULL AS applied, b.result FROM workflow_inbox b"
        " JOIN workflow_instances i ON i.id = b.instance_id WHERE i.ulid = $1 ORDER BY b.id",
        ulid,
    )
    row = await runtime.instance(ulid)
    named = ("status", "current_node_id", "steps_count", "failure_code", "failed_node_id")
    state = (await Hand.on(runtime, ulid)).state
    return {
        "instance": {name: row[name] for name in named},
        "steps": [dict(step) for step in steps],
        "waits": [dict(wait) for wait in waits],
        "inbox": [dict(entry) for entry in inbox],
        "values": dict(state.values),
        "visits": dict(state.visits),
        "results": {node: result.outcome for node, result in state.results.items()},
        "consumed": len(state.consumed),
    }


async def assert_sound(runtime: Runtime, ulid: str) -> None:
    """The journal has no gap, ends at lock_version, and times run as the entries do."""
    rows = await runtime.pool.fetch(
        "SELECT j.seq, j.at, i.lock_version FROM workflow_journal j"
        " JOIN workflow_instances i ON i.id = j.instance_id WHERE i.ulid = $1 ORDER BY j.seq",
        ulid,
    )
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["lock_version"] for row in rows} <= {len(rows)}
    times = [row["at"] for row in rows]
    assert times == sorted(times)
    state = (await Hand.on(runtime, ulid)).state
    opened = await runtime.pool.fetch(
        "SELECT s.id, s.status FROM workflow_step_runs s JOIN workflow_instances i"
        " ON i.id = s.instance_id WHERE i.ulid = $1 AND s.finished_at IS NULL",
        ulid,
    )
    assert {row["id"]: row["status"] for row in opened} == {
        key: step.status for key, step in state.steps.items()
    }
    pending = await runtime.pool.fetch(
        "SELECT w.id FROM workflow_waits w JOIN workflow_instances i ON i.id = w.instance_id"
        " WHERE i.ulid = $1 AND w.status = 'pending'",
        ulid,
    )
    assert {row["id"] for row in pending} == set(state.waits)
