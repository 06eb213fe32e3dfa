"""Pokes of many instances: what starting again and mending come down to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from adapter.engine.protocol import Labels
from adapter.errors import Unavailable
from adapter.records.health import CHUNK
from adapter.records.health_instances import labelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.engine.protocol import Engine, Executions
    from adapter.records.health import Examined
    from adapter.services.diagnosing.asking import Asking
    from adapter.settings import Settings

AT_ONCE: Final = 16
TRIES: Final = 3
PER_POKE: Final = 2.0
"""Seconds that a poke may take on the average: a batch has that much time."""


@dataclass(frozen=True, slots=True)
class Poked:
    """What became of a batch.

    Attributes:
        poked: The instances that the engine was told of.
        refused: Those that it did not take, and why not.
    """

    poked: tuple[str, ...]
    refused: dict[str, str]


def poke(settings: Settings, database: Examined, engine: Asking, ulids: Sequence[str]) -> Poked:
    """Pokes instances: each that has no execution gets one, each that has one looks at its record.

    May be repeated without harm. An instance that is not there is poked, too: its execution, if it
    has one, finds that out and ends.

    Args:
        settings: Name the tables.
        database: Tells what the executions are labelled with.
        engine: Is poked.
        ulids: Of the instances; in batches of 1,000.
    """
    poked: list[str] = []
    refused: dict[str, str] = {}
    for first in range(0, len(ulids), CHUNK):
        batch = ulids[first : first + CHUNK]
        rows = database.of(labelled(settings.tables), batch)
        labels = {ulid: Labels(row.definition, row.owner) for ulid, row in rows.items()}

        async def all_of(
            own: Engine,
            _: Executions,
            batch: Sequence[str] = batch,
            labels: dict[str, Labels] = labels,
        ) -> list[str | None]:
            slots = asyncio.Semaphore(AT_ONCE)

            async def one(ulid: str) -> str | None:
                async with slots:
                    return await _poke(own, ulid, labels.get(ulid))

            return await asyncio.gather(*(one(ulid) for ulid in batch))

        told = engine.ask(all_of, 30 + PER_POKE * len(batch))
        for ulid, reason in zip(batch, told, strict=True):
            if reason is None:
                poked.append(ulid)
            else:
                refused[ulid] = reason
    return Poked(tuple(poked), refused)


async def _poke(engine: Engine, ulid: str, labels: Labels | None) -> str | None:
    """Pokes one instance; returns why it could not be, after some tries."""
    reason = ""
    for attempt in range(TRIES):
        try:
            await engine.poke(ulid, labels)
        except Unavailable as error:
            reason = error.message
            await asyncio.sleep(0.2 * 2**attempt)
        else:
            return None
    return reason
