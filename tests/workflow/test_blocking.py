"""A handler that blocks its event loop, on the whole system, and everybody else's timers."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg

from tests.eventually import eventually_async
from tests.execution.runtime import action, chain

if TYPE_CHECKING:
    from tests.workflow.system import System

AWAIT = 3.0
BLOCK = 8.0
BETWEEN_SIGNALS = 0.25
ALLOWED = 1.0
"""Seconds that others may be later than beside handlers that await."""

LANES = ["inline", "queued"]
OTHERS = 5
TRIALS = 3
"""A machine that is busy with something else delays a timer now and then, a blocked one always."""

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


class Holding:
    """Handlers that take their time, one in each lane, and signals for their instances meanwhile.

    Attributes:
        begun: The lanes of the handlers that were called.
        block: Whether they hold up their event loop, or await.
    """

    def __init__(self, system: System, name: str, seconds: float, *, block: bool) -> None:
        self.system = system
        self.name = name
        self.seconds = seconds
        self.block = block
        self.begun: list[str] = []
        for lane in LANES:
            options: dict[str, Any] = {"queue": "heavy"} if lane == "queued" else {}
            system.almanac.registry.action(self._key(lane), timeout=PATIENCE, **options)(
                partial(self._hold, lane)
            )

    def _key(self, lane: str) -> str:
        return f"{self.name}-{lane}"

    async def _hold(self, lane: str) -> None:
        self.begun.append(lane)
        if self.block:
            time.sleep(self.seconds)  # noqa: ASYNC251 - what this module is about
        else:
            await asyncio.sleep(self.seconds)

    async def publish(self, timers_each: int) -> None:
        """Publishes what holds, and the timers of others."""
        for lane in LANES:
            document = {**chain(action("one", self._key(lane))), "key": self._key(lane)}
            await self.system.call(self.system.almanac.publish, document)
        await self.system.call(self.system.almanac.publish, timers(self.name, timers_each))

    async def run(self) -> None:
        """Holds, with signals and others' timers all the while; each handler is called once."""
        system = self.system
        ulids = [(await system.call(system.almanac.start, self._key(lane))).ulid for lane in LANES]
        await eventually_async(self._all_begun, PATIENCE)
        until = time.monotonic() + self.seconds - 1
        others = asyncio.create_task(run_timers(system, self.name))
        signals = 0
        while time.monotonic() < until:
            for ulid in ulids:
                await system.call(system.almanac.signal, ulid, "again", {"number": signals})
            signals += 1
            await asyncio.sleep(BETWEEN_SIGNALS)
        views = [await system.ended(ulid, PATIENCE) for ulid in ulids]
        await others
        assert sorted(self.begun) == LANES
        for view in views:
            steps = [(step.node, step.attempt, step.status) for step in view.steps[1:]]
            assert (view.status, steps) == ("completed", [("one", 1, "succeeded")])
            inbox = (await system.call(system.almanac.inbox, view.ulid)).items
            came = [row.status for row in inbox if row.kind == "signal"]
            taken = came.count("done")
            # The last ones may have come after the end.
            assert came == ["done"] * taken + ["refused"] * (signals - taken)
            assert taken > 1

    async def _all_begun(self) -> None:
        assert sorted(self.begun) == LANES


async def test_b17_eight_seconds_of_blocking_run_once_and_delay_nobody_s_timers(
    system: System,
) -> None:
    @system.almanac.registry.action("short")
    async def short() -> None:
        await asyncio.sleep(0.01)

    awaiting = Holding(system, "awaiting", AWAIT, block=False)
    blocking = [Holding(system, f"blocking{n}", BLOCK, block=True) for n in range(TRIALS)]
    await awaiting.publish(2)
    for holding in blocking:
        await holding.publish(5)
    delays: list[float] = []
    async with system.worker():
        await awaiting.run()
        undelayed = await lateness(system, awaiting.name)
        for holding in blocking:
            await holding.run()
            beside = await lateness(system, holding.name)
            assert (len(undelayed), len(beside)) == (2 * OTHERS, 5 * OTHERS)
            delays.append(max(beside) - max(undelayed))
            if delays[-1] < ALLOWED:
                return
    raise AssertionError(f"others' timers were late by {delays} s more each time")
