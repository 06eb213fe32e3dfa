from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from ulid import ULID

from tests.workflow.system import System, open_system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def system(database_url: str, temporal_address: str) -> AsyncIterator[System]:
    async with open_system(database_url, temporal_address, queue=str(ULID())) as system:
        yield system
