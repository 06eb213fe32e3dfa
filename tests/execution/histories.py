"""Random histories of random graphs, written to a real record append by append."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.interpreter.events import Arrived
from adapter.interpreter.projection import project
from adapter.interpreter.state import State
from adapter.records.append import Appender
from adapter.records.load import Loader
from tests.interpreter.random_graphs import World
from tests.interpreter.test_decider_properties import answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adapter.interpreter.events import Event
    from adapter.interpreter.state import Key
    from tests.execution.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Written:
    """What stands in the record after one more append, and the state that was decided."""

    connection: Any
    loader: Loader
    ulid: str
    id: Key
    state: State
    world: World


async def written(
    runtime: Runtime, document: dict[str, Any], trigger: dict[str, Any], moves: list[Any]
) -> AsyncIterator[Written]:
    """Gives the record after every append of a history."""
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
                yield Written(connection, loader, ulid, first.id, state, world)
