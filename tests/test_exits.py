"""Processes that have used Temporal end as any other; ALMANAC_TEST_EXITS says how many of each."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from ulid import ULID

from tests.exits import KINDS, end

if TYPE_CHECKING:
    from pathlib import Path

TIMES = int(os.environ.get("ALMANAC_TEST_EXITS") or 1)
TOGETHER = 3
"""Processes at once: that they are in each other's way makes the window longer."""


@pytest.mark.timeout(90 + 60 * TIMES)
@pytest.mark.parametrize("name", KINDS)
async def test_a_process_that_used_temporal_ends_with_its_own_code(
    name: str, tmp_path: Path, database_url: str, temporal_address: str
) -> None:
    slots, queue = asyncio.Semaphore(TOGETHER), str(ULID())

    async def one(number: int) -> str | None:
        directory = tmp_path / str(number)
        directory.mkdir()
        settings = {
            "ALMANAC_DATABASE_URL": database_url,
            "ALMANAC_TEMPORAL_ADDRESS": temporal_address,
            "ALMANAC_TASK_QUEUE": queue,
        }
        async with slots:
            return await end(KINDS[name], directory, settings)

    ends = await asyncio.gather(*(one(number) for number in range(TIMES)))

    assert [wrong for wrong in ends if wrong is not None] == []
