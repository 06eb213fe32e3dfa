"""The comparison of unfinished instances with executions.

One list of executions gives the candidates, on either side. Lists lag behind, so each candidate is
described by itself, and its row is read once more, before anything is said of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from adapter.records.health import MOST, Seen
from adapter.records.health_instances import settled, standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adapter.engine.protocol import Engine, Execution, Executions
    from adapter.records.health import Examined
    from adapter.services.diagnosing.asking import Asking
    from adapter.settings import Settings

SETTLED: Final = 30
"""Seconds that row and execution are left to come to agree."""

LISTED: Final = 200_000
LISTING: Final = 30.0
"""Open executions that are listed, and the seconds that it may take."""

DESCRIBED: Final = 2_000
AT_ONCE: Final = 50
RECENT: Final = 1_000
"""Executions that are described, at once; and those closed last that are looked up."""

RECENTLY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Census:
    """What was found.

    Attributes:
        ended: Unfinished instances without an open execution, by how their last one was closed;
            ``none`` where the engine knows of none.
        needless: Open executions whose instance has ended.
        unknown: Executions, open or closed of late, of instances that are not in the record.
        at_least: Whether there were more than were looked at.
    """

    ended: dict[str, list[Seen]]
    needless: list[Seen]
    unknown: list[Seen]
    at_least: bool


def take_census(settings: Settings, database: Examined, engine: Asking) -> Census:
    """Compares.

    Raises:
        Unavailable: Temporal or the database do not answer.
    """
    names = settings.tables
    rows = database.seen(settled(names, SETTLED))
    listed, whole = open_executions(engine)
    lacking = [one for one in rows if one.id not in listed]
    described = _describe(engine, [one.id for one in lacking[:DESCRIBED]])
    suspects = {
        one.id: one
        for one in lacking[:DESCRIBED]
        if (known := described[one.id]) is None or not known.open
    }
    now = database.of(standing(names, SETTLED), list(suspects))
    ended: dict[str, list[Seen]] = {}
    for ulid, row in now.items():
        # One that has moved meanwhile has had an execution.
        if row.ended_at is None and row.updated_at == suspects[ulid].at:
            told = described[ulid]
            ended.setdefault("none" if told is None else told.status, []).append(suspects[ulid])
    needless, unknown = _surplus(settings, database, engine, listed)
    at_least = not whole or len(rows) > MOST or len(lacking) > DESCRIBED
    return Census(ended, needless, unknown, at_least)


def _surplus(
    settings: Settings, database: Examined, engine: Asking, listed: dict[str, Execution]
) -> tuple[list[Seen], list[Seen]]:
    """Open executions of instances that have ended, and all of instances that are not there."""
    within = min(RECENTLY, settings.prune.instances_after / 2)
    closed = engine.ask(lambda _, known: _closed(known, within), LISTING + 5)
    known = {**closed, **listed}
    rows = database.of(standing(settings.tables, SETTLED), list(known))
    over = [ulid for ulid in listed if ulid in rows and rows[ulid].over]
    missing = [ulid for ulid in known if ulid not in rows]
    still = _describe(engine, [*over[:DESCRIBED], *missing[:DESCRIBED]])
    again = database.of(standing(settings.tables, SETTLED), list(still))
    needless = [
        Seen(ulid, rows[ulid].ended_at)
        for ulid in over[:DESCRIBED]
        if (told := still[ulid]) and told.open and ulid in again and again[ulid].over
    ]
    unknown = [
        Seen(ulid, told.started_at)
        for ulid in missing[:DESCRIBED]
        if (told := still[ulid]) and ulid not in again
    ]
    return _oldest(needless), _oldest(unknown)


def _oldest(seen: Iterable[Seen]) -> list[Seen]:
    return sorted(seen, key=lambda one: one.at)


def open_executions(engine: Asking) -> tuple[dict[str, Execution], bool]:
    """Open executions by ulid, and whether these are all.

    Raises:
        Unavailable: Temporal does not answer.
    """
    return engine.ask(_open, LISTING + 5)


async def _open(_: Engine, executions: Executions) -> tuple[dict[str, Execution], bool]:
    found: dict[str, Execution] = {}
    try:
        async with asyncio.timeout(LISTING):
            async for one in executions.listed():
                found[one.ulid] = one
                if len(found) >= LISTED:
                    return found, False
    except TimeoutError:
        return found, False
    return found, True


async def _closed(executions: Executions, within: timedelta) -> dict[str, Execution]:
    """Some of those that were closed of late."""
    found: dict[str, Execution] = {}
    async for one in executions.listed(closed_since=datetime.now(UTC) - within):
        found.setdefault(one.ulid, one)
        if len(found) >= RECENT:
            break
    return found


def _describe(engine: Asking, ulids: Sequence[str]) -> dict[str, Execution | None]:
    async def all_of(_: Engine, executions: Executions) -> list[Execution | None]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(ulid: str) -> Execution | None:
            async with slots:
                return await executions.describe(ulid)

        return await asyncio.gather(*(one(ulid) for ulid in ulids))

    if not ulids:
        return {}
    return dict(zip(ulids, engine.ask(all_of, 30 + 0.1 * len(ulids)), strict=True))
