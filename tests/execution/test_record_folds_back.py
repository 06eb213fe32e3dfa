from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings

from adapter.interpreter.apply import fold
from adapter.records.documented import INSTANCE_STATUSES, STEP_RUN_STATUSES
from tests.execution.histories import written
from tests.execution.runtime import open_runtime
from tests.interpreter.random_graphs import MOVES, PAYLOADS, documents

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime

OPEN = ["scheduled", "retrying", "running", "waiting"]


def test_a3_the_state_folded_from_rows_is_the_live_state_after_every_append(
    database_url: str,
) -> None:
    with asyncio.Runner() as runner:
        context = open_runtime(database_url)
        runtime = runner.run(context.__aenter__())

        @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(documents(), PAYLOADS, MOVES)
        def check(document: dict[str, Any], trigger: dict[str, Any], moves: list[Any]) -> None:
            runner.run(_write_and_read_back(runtime, document, trigger, moves))

        check()
        runner.run(_only_documented_states(runtime))
        runner.run(context.__aexit__(None, None, None))


async def _only_documented_states(runtime: Runtime) -> None:
    """The hot tables have no CHECK for their states, so the writer answers for them."""
    for table, states in (
        ("workflow_instances", INSTANCE_STATUSES),
        ("workflow_step_runs", STEP_RUN_STATUSES),
    ):
        rows = await runtime.pool.fetch(f"SELECT DISTINCT status FROM {table}")
        assert {row["status"] for row in rows} <= set(states)


async def _write_and_read_back(
    runtime: Runtime, document: dict[str, Any], trigger: dict[str, Any], moves: list[Any]
) -> None:
    async for now in written(runtime, document, trigger, moves):
        loaded = await now.loader.load(now.connection, now.ulid)
        assert fold(loaded.entries) == now.state
        assert (loaded.status, loaded.seq) == (now.state.status, now.state.seq)
        rows = await now.connection.fetch(
            "SELECT id, status FROM workflow_step_runs WHERE instance_id = $1"
            " AND status = ANY ($2)",
            now.id,
            OPEN,
        )
        assert {r["id"]: r["status"] for r in rows} == {
            key: step.status for key, step in now.state.steps.items()
        }
        known = await now.loader.outputs(now.connection, frozenset(now.world.outputs))
        for key, value in known.items():
            assert value is None or value == now.world.outputs[key]
