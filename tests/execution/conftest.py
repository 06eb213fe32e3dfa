from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.execution.runtime import Runtime, open_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def runtime(database_url: str) -> AsyncIterator[Runtime]:
    async with open_runtime(database_url) as runtime:
        yield runtime
