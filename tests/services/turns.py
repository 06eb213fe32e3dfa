"""Turns of instances without Temporal: what a worker would do next, done now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ulid import ULID

from adapter.execution.deps import turn_deps
from adapter.execution.registry import Registry
from adapter.execution.runner import HandlerRunner
from adapter.records.pooling import make_pool
from tests.driving.turns import take_turn

if TYPE_CHECKING:
    from adapter.settings import Settings


def take_turns(settings: Settings, *ulids: str, registry: Registry | None = None) -> None:
    """Takes turns of the instances until each waits or has ended."""
    asyncio.run(_take_turns(settings, ulids, registry or Registry()))


async def _take_turns(settings: Settings, ulids: tuple[str, ...], registry: Registry) -> None:
    pool = await make_pool(settings, 2)
    runner = HandlerRunner()
    runner.start()
    try:
        deps = turn_deps(
            settings,
            pool,
            worker=str(ULID()),
            registry=registry,
            runner=runner,
            new_token=lambda: str(ULID()),
        )
        for ulid in ulids:
            while (await take_turn(deps, ulid)).more:
                pass
    finally:
        runner.stop()
        await pool.close()
