from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings

from adapter.interpreter.apply import fold
from adapter.interpreter.events import Arrived
from adapter.interpreter.projection import project
from adapter.interpreter.state import State
from adapter.records.append import Appender
from adapter.records.load import Loader
from tests.execution.runtime import Runtime, open_runtime
from tests.interpreter.random_graphs import MOVES, PAYLOADS, World, documents
from tests.interpreter.test_decider_properties import answer

if TYPE_CHECKING:
    from adapter.interpreter.events import Event

OPEN = ["scheduled", "retrying", "running", "waiting"]


def test_the_state_folded_from_rows_is_the_live_state_after_every_append(database_url: str) -> None:
    with asyncio.Runner() as runner:
        context = open_runtime(database_url)
        runtime = runner.run(context.__aenter__())

        @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(documents(), PAYLOADS, MOVES)
        def check(document: dict[str, Any], trigger: dict[str, Any], moves: list[Any]) -> None:
            runner.run(_write_and_read_back(runtime, document, trigger, moves))

        check()
        runner.run(context.__aexit__(None, None, None))


async def _write_and_read_back(
    runtime: Runtime, document: dict[str, Any], trigger: dict[str, Any], moves: list[Any]
) -> None:
    appender, loader = Appender(runtime.settings), Loader(runtime.settings)
    ulid = await runtime.begun(document, trigger)
    world = World.of(document, trigger)
    world.ids = await runtime.pool.fetchval(
        "SELECT greatest((SELECT coalesce(max(id), 0) FROM workflow_step_runs),"
        " (SELECT coalesce(max(id), 0) FROM workflow_waits))"
    )
    async with runtime.pool.acquire() as connection:
        first = await loader.load(connection, ulid)
        state = State()
        events: list[Event] = list(first.inbox)
        for move, pick in [("start", 0), *moves]:
            for event in events if move == "start" else world.events(state, move, pick):
                if move != "start" and isinstance(event, Arrived):
                    continue
                decision = answer(world, state, event)
                if not decision.entries:
                    continue
                changes = project(
                    state, decision.entries, decision.state, ulid=ulid, writer=world.writer
                )
                appended = await appender.append(
                    connection,
                    instance=first.id,
                    expected_seq=state.seq,
                    entries=decision.entries,
                    changes=changes,
                    writer=world.writer,
                )
                assert appended is not None
                state = decision.state
                loaded = await loader.load(connection, ulid)
                assert fold(loaded.entries) == state
                assert (loaded.status, loaded.seq) == (state.status, state.seq)
                rows = await connection.fetch(
                    "SELECT id, status FROM workflow_step_runs WHERE instance_id = $1"
                    " AND status = ANY ($2)",
                    first.id,
                    OPEN,
                )
                assert {r["id"]: r["status"] for r in rows} == {
                    key: step.status for key, step in state.steps.items()
                }
                known = await loader.outputs(connection, frozenset(world.outputs))
                for key, value in known.items():
                    assert value is None or value == world.outputs[key]
