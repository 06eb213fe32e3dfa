from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.execution.runtime import open_runtime
from tests.patterns.driving import Driver
from tests.records.databases import fresh_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from temporal_workflows.dev.stack import Stack


@pytest.fixture(scope="session")
def patterns_database_url(stack: Stack, migrated_template: str) -> Iterator[str]:
    """One migrated database for all patterns: each publishes under a key of its own."""
    with fresh_database(stack, template=migrated_template) as url:
        yield url


@pytest_asyncio.fixture
async def driver(patterns_database_url: str) -> AsyncIterator[Driver]:
    async with open_runtime(patterns_database_url) as runtime:
        with Driver.open(runtime) as driver:
            yield driver
