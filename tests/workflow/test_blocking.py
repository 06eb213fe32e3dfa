"""A handler that blocks its event loop, on the whole system, and everybody else's timers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import asyncpg

from tests.eventually import eventually_async
from tests.execution.runtime import action, chain

if TYPE_CHECKING:
    from tests.workflow.system import System

BLOCK = 8.0
BETWEEN_SIGNALS = 0.25
ALLOWED = 1.0
"""Seconds that others may be later than undisturbed."""

LANES = ["inline", "queued"]
OTHERS = 5
PATIENCE = 60


def timers(key: str, count: int) -> dict[str, Any]:
    """A line of delays of a second, each with a short handler after it."""
    nodes: list[dict[str, Any]] = []
    for n in range(count):
        nodes.append({"id": f"d{n}", "type": "delay", "config": {"for": "PT1S"}})
        nodes.append(action(f"s{n}", "short"))
    return {**chain(*nodes), "key": key}


async def run_timers(system: System, key: str) -> None:
    """Runs instances of it at once, to their ends."""
    started = [await system.call(system.almanac.start, key) for _ in range(OTHERS)]
    views = await asyncio.gather(*(system.ended(one.ulid, PATIENCE) for one in started))
    assert {view.status for view in views} == {"completed"}


async def lateness(system: System, key: str) -> list[float]:
    """Seconds between each delay's due time and its end."""
    n = system.settings.tables
    connection = await asyncpg.connect(system.settings.database_url)
    try:
        rows = await connection.fetch(
            f"SELECT extract(epoch FROM s.finished_at - w.due_at)::float AS late FROM {n.waits} w"
            f" JOIN {n.step_runs} s ON s.id = w.step_run_id"
            f" JOIN {n.instances} i ON i.id = s.instance_id"
            f" JOIN {n.definitions} d ON d.id = i.definition_id WHERE d.key = $1",
            key,
        )
    finally:
        await connection.close()
    return [row["late"] for row in rows]


async def test_b17_eight_seconds_of_blocking_run_once_and_delay_nobody_s_timers(
    system: System,
) -> None:
    blocked: list[str] = []

    def block(lane: str) -> None:
        blocked.append(lane)
        time.sleep(BLOCK)

    @system.almanac.registry.action("inline", timeout=PATIENCE)
    async def inline() -> None:
        block("inline")

    @system.almanac.registry.action("queued", timeout=PATIENCE, queue="heavy")
    async def queued() -> None:
        block("queued")

    @system.almanac.registry.action("short")
    async def short() -> None:
        await asyncio.sleep(0.01)

    culprits = [{**chain(action("one", lane)), "key": lane} for lane in LANES]
    for document in (timers("undisturbed", 2), timers("beside", 4), *culprits):
        await system.call(system.almanac.publish, document)

    async def are_blocked() -> None:
        assert sorted(blocked) == LANES

    async with system.worker():
        await run_timers(system, "undisturbed")
        ulids = [(await system.call(system.almanac.start, lane)).ulid for lane in LANES]
        await eventually_async(are_blocked, PATIENCE)
        until = time.monotonic() + BLOCK - 1
        others = asyncio.create_task(run_timers(system, "beside"))
        signals = 0
        while time.monotonic() < until:
            for ulid in ulids:
                await system.call(system.almanac.signal, ulid, "again", {"number": signals})
            signals += 1
            await asyncio.sleep(BETWEEN_SIGNALS)
        views = [await system.ended(ulid, PATIENCE) for ulid in ulids]
        await others

    assert sorted(blocked) == LANES
    for view in views:
        assert view.status == "completed"
        assert [(s.node, s.attempt, s.status) for s in view.steps[1:]] == [("one", 1, "succeeded")]
        inbox = (await system.call(system.almanac.inbox, view.ulid)).items
        assert [row.status for row in inbox if row.kind == "signal"] == ["done"] * signals
    assert signals > 5
    undisturbed = await lateness(system, "undisturbed")
    beside = await lateness(system, "beside")
    assert len(beside) == 4 * OTHERS
    assert max(beside) < max(undisturbed) + ALLOWED
