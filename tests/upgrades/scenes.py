"""The scenes: what instances go through while their histories and journals are recorded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import patch

from temporalio.exceptions import ApplicationError

from adapter.execution import instance
from temporal_workflows.contracts import NEWER_JOURNAL, NOT_FOUND
from tests.eventually import eventually_async
from tests.upgrades.stage import PATIENCE, STUCK, Gate, TrickedTurns, tricks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adapter.services.commanding import Receipt
    from tests.upgrades.stage import Stage, Trick

UNKNOWN = "01HZZZZZZZZZZZZZZZZZZZZZZZ"


async def _straight(stage: Stage) -> str:
    ulid = await stage.start("straight", {"amount": 7})
    await stage.has(ulid, "completed")
    return ulid


async def _failing(stage: Stage) -> str:
    """An attempt fails and is repeated; the instance fails, is retried, and completes."""
    ulid = await stage.start("failing")
    await stage.has(ulid, "failed")
    stage.willing = True
    await stage.tell("retry", ulid)
    await stage.has(ulid, "completed")
    stage.willing = False
    return ulid


async def _waits(stage: Stage) -> str:
    ulid = await stage.start("waits", {"order": 7})
    await stage.shows(ulid, "event")
    await stage.emit("up.paid", {"order": 7})
    await stage.shows(ulid, "signal")
    await stage.tell("signal", ulid, "two", {"n": 2})
    await stage.tell("signal", ulid, "ask")
    await stage.shows(ulid, "all")
    await stage.tell("signal", ulid, "one", {"n": 1})
    await stage.shows(ulid, "any")
    await stage.tell("signal", ulid, "four")
    await stage.has(ulid, "completed")
    return ulid


async def _branches(stage: Stage) -> str:
    """Branches and items, one fails; then one that is no longer waited for."""
    ulid = await stage.start("branches", {"items": ["a", "b", "c"]})
    await stage.has(ulid, "completed")
    return ulid


async def _rounds(stage: Stage) -> str:
    """Iterations, with snapshots in between."""
    with patch.object(instance, "SNAPSHOT_EVERY", 12):
        ulid = await stage.start("rounds")
        await stage.has(ulid, "completed")
    return ulid


async def _parent(stage: Stage) -> str:
    """Children that are waited for, alone, together and not at all; one that nobody knows."""
    ulid = await stage.start("parent", {"unknown": UNKNOWN})
    await stage.has(ulid, "completed")
    return ulid


async def _paused(stage: Stage) -> str:
    """Paused twice, which is refused once; told of an event meanwhile; resumed and cancelled."""
    ulid = await stage.start("paused")
    await stage.shows(ulid, "w")

    def pause_twice() -> list[Receipt]:
        with stage.almanac.transaction() as both:
            return [stage.almanac.pause(ulid, why, connection=both) for why in ("a", "b")]

    for receipt in await stage.system.call(pause_twice):
        await stage.system.call(stage.almanac.wait_applied, receipt, PATIENCE)
    await stage.emit("up.go", {})
    await stage.tell("resume", ulid)
    await stage.shows(ulid, "v")
    await stage.tell("cancel", ulid, "enough")
    await stage.has(ulid, "cancelled")
    return ulid


async def _queued(stage: Stage) -> str:
    """Queued steps one after the other and side by side; one is asked to stop."""
    stage.long = Gate()
    ulid = await stage.start("queued")
    await stage.shows(ulid, "then")
    await stage.happened(ulid, "activity_task_cancel_requested")
    await stage.emit("up.go", {})
    await stage.has(ulid, "completed")
    return ulid


async def _cancelled(stage: Stage) -> str:
    """Cancelled with an activity under way."""
    stage.long = Gate()
    ulid = await stage.start("long")
    await stage.long.reached()
    await stage.tell("cancel", ulid)
    await stage.has(ulid, "cancelled")
    return ulid


async def _lost(stage: Stage) -> str:
    """The worker stops under a queued step; another one takes it."""
    stage.long = Gate()
    ulid = await stage.start("long")
    await stage.long.reached()
    await stage.stop()
    stage.long.opened.set()
    await stage.begin()
    await stage.has(ulid, "completed")
    return ulid


async def _leaving(stage: Stage) -> str:
    """The worker stops in the midst of a turn, which leaves the rest to another one."""
    stage.brief = Gate()
    ulid = await stage.start("brief")
    await stage.brief.reached()
    stopping = asyncio.create_task(stage.stop())
    await asyncio.sleep(0)
    stage.brief.opened.set()
    await stopping
    await stage.begin()
    await stage.shows(ulid, "w")
    await stage.emit("up.go", {})
    await stage.has(ulid, "completed")
    return ulid


async def _poked(stage: Stage) -> str:
    """Signals come while a turn waits for a handler."""
    stage.brief = Gate()
    ulid = await stage.start("brief")
    await stage.brief.reached()
    for number in range(3):
        await stage.system.call(stage.almanac.signal, ulid, "unasked", {"n": number})
    stage.brief.opened.set()
    await stage.shows(ulid, "w")
    await stage.emit("up.go", {})
    await stage.has(ulid, "completed")
    return ulid


async def _stuck(stage: Stage) -> str:
    """Turns that can do nothing, with longer and longer pauses, each in a run of its own."""
    return await _tricked(stage, "echo", STUCK, STUCK)


async def _stuck_beside(stage: Stage) -> str:
    """The same while an activity is under way, which keeps the run."""
    stage.long = Gate()
    ulid = await stage.start("long")
    await stage.long.reached()
    with tricks(ulid, STUCK, STUCK):
        await stage.system.call(stage.almanac.signal, ulid, "unasked")
        await _played(ulid)
        stage.long.opened.set()
        await stage.has(ulid, "completed")
    return ulid


async def _newer(stage: Stage) -> str:
    """A turn meets a newer journal: the task fails, and is given to another worker."""
    error = ApplicationError("newer", type=NEWER_JOURNAL, non_retryable=True)
    return await _tricked(stage, "echo", error)


async def _gone(stage: Stage) -> str:
    """The record does not know the instance: the execution ends."""
    error = ApplicationError("gone", type=NOT_FOUND, non_retryable=True)
    return await _tricked(stage, "echo", error)


async def _database(stage: Stage) -> str:
    """A turn cannot reach the database, and is taken again."""
    return await _tricked(stage, "echo", RuntimeError("no database"))


async def _steps(stage: Stage) -> str:
    """So many turns in a row that their task ends in between."""
    await stage.stop()
    settings = stage.system.settings
    short = settings.worker.model_copy(update={"stretch": settings.worker.relay_interval * 0})
    stage.system.settings = settings.model_copy(update={"worker": short})
    await stage.begin()
    ulid = await stage.start("steps")
    await stage.has(ulid, "completed")
    await stage.stop()
    stage.system.settings = settings
    await stage.begin()
    return ulid


async def _many(stage: Stage) -> str:
    """So many pokes that Temporal suggests to continue as new."""
    ulid = await stage.start("many")
    number = 0
    while len(await stage.runs(ulid)) < 2:
        number += 1
        await stage.shows(ulid, "w", visit=number)
        await stage.tell("signal", ulid, "next", {"more": True})
    await stage.shows(ulid, "w", visit=number + 1)
    await stage.tell("signal", ulid, "next", {"more": False})
    await stage.has(ulid, "completed")
    return ulid


async def _tricked(stage: Stage, key: str, *several: Trick) -> str:
    """An instance whose first turns come to something else."""
    await stage.stop()
    ulid = await stage.start(key)
    with tricks(ulid, *several):
        await stage.begin()
        await _played(ulid)
        await stage.has(ulid, "completed")
    return ulid


async def _played(ulid: str) -> None:
    async def none_left() -> None:
        assert not TrickedTurns.tricks[ulid]

    await eventually_async(none_left, PATIENCE)


SCENES: dict[str, Callable[[Stage], Awaitable[str]]] = {
    "straight": _straight,
    "failing": _failing,
    "waits": _waits,
    "branches": _branches,
    "rounds": _rounds,
    "parent": _parent,
    "paused": _paused,
    "queued": _queued,
    "cancelled": _cancelled,
    "lost": _lost,
    "leaving": _leaving,
    "poked": _poked,
    "stuck": _stuck,
    "stuck_beside": _stuck_beside,
    "newer": _newer,
    "gone": _gone,
    "database": _database,
    "steps": _steps,
    "many": _many,
}
"""What is played, by the name of its files."""

ABOUT_TEMPORAL = frozenset(
    {"stuck", "stuck_beside", "newer", "gone", "database", "leaving", "steps", "many"}
)
"""Scenes whose journals are like others."""
