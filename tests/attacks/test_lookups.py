"""Look-ups go by index, however many rows have the same key: told by plans, not by the clock."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from adapter.interpreter.state import AcceptFrom, Wait
from adapter.records.connecting import make_database
from adapter.records.look import Looker
from adapter.services.matching import match_events
from tests.execution.runtime import Runtime, chain

FROM_THE_FIRST = AcceptFrom("1:1:")


class Watched:
    """A connection that keeps what is asked of it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    async def fetch(self, query: str, *arguments: Any) -> Any:
        self.asked.append((query, arguments))
        return await self._connection.fetch(query, *arguments)

    async def plan(self) -> str:
        """How PostgreSQL answers the last question."""
        query, arguments = self.asked[-1]
        rows = await self._connection.fetch(f"EXPLAIN {query}", *arguments)
        return "\n".join(row[0] for row in rows)


async def _many_events(runtime: Runtime, count: int, matched: int = 0) -> None:
    await runtime.pool.execute(
        "INSERT INTO workflow_event_fields (event_key, epoch, fields) VALUES ('go', 1, '{case}')"
    )
    await runtime.pool.execute(
        "INSERT INTO workflow_events (key, owner_scope, payload, epoch, digests, matched_at)"
        " SELECT 'go', '*', p, 1, ARRAY[md5('go' || chr(10) || p::text)::uuid],"
        " CASE WHEN n <= $2 THEN now() END"
        " FROM generate_series(1, $1) n, jsonb_build_object('case', n) p",
        count,
        matched,
    )
    await runtime.pool.execute("ANALYZE workflow_events, workflow_event_fields")


@pytest.mark.parametrize("case", [7, -1])
async def test_b16_a_look_finds_its_events_by_digest_however_many_have_the_same_key(
    runtime: Runtime, case: int
) -> None:
    await _many_events(runtime, 20_000)
    wait = Wait(1, 1, "w", "event", event="go", match={"case": case})

    async with runtime.pool.acquire() as connection:
        watched: Any = Watched(connection)
        found = await Looker(runtime.settings).look(
            watched, wait, accept_from=FROM_THE_FIRST, consumed=(), owner_scope="*"
        )
        plan = await watched.plan()

    assert [event.payload for event in found] == [{"case": case}] * (case > 0)
    assert "ix_workflow_events_digests" in plan
    assert "Seq Scan on workflow_events e" not in plan


async def _many_waits(runtime: Runtime, count: int) -> None:
    await runtime.begun(chain({"id": "end", "type": "end"}))
    await runtime.pool.execute(
        "WITH s AS (INSERT INTO workflow_step_runs (instance_id, node_id, node_type, visit,"
        " attempt, status, idempotency_key) SELECT i.id, 'w', 'wait', n, 1, 'waiting', n::text"
        " FROM workflow_instances i, generate_series(1, $1) n RETURNING id, instance_id, visit)"
        " INSERT INTO workflow_waits (instance_id, step_run_id, kind, event_key, match, status)"
        " SELECT instance_id, id, 'event', 'go', jsonb_build_object('case', visit), 'pending'"
        " FROM s",
        count,
    )
    await runtime.pool.execute("ANALYZE workflow_waits, workflow_step_runs, workflow_instances")


async def test_b16_a_match_finds_its_waits_by_digest_however_many_have_the_same_key(
    runtime: Runtime,
) -> None:
    await _many_waits(runtime, 5_000)
    await _many_events(runtime, 5_000, matched=4_980)
    asked: list[tuple[str, Any]] = []
    database = make_database(runtime.settings)

    @event.listens_for(database, "before_cursor_execute")
    def _keep(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    with database.begin() as connection:
        report = match_events(connection, runtime.settings)
        statement, parameters = next(pair for pair in asked if "matched_at =" in pair[0])
        rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).all()
    database.dispose()
    plan = "\n".join(row[0] for row in rows)

    assert (report.events, report.deliveries) == (20, 20)
    assert "wwait_digest_idx" in plan
    assert "Seq Scan on workflow_waits" not in plan
    assert "Seq Scan on workflow_events" not in plan
