from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from adapter.client.almanac import Almanac
from tests.execution.families import Family
from tests.execution.runtime import Runtime, open_runtime
from tests.records.databases import fresh_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from temporal_workflows.dev.stack import Stack


@pytest.fixture(scope="session")
def shared_database_url(stack: Stack, migrated_template: str) -> Iterator[str]:
    """One migrated database for all tests that keep to their own instances and event keys."""
    with fresh_database(stack, template=migrated_template) as url:
        yield url


@pytest_asyncio.fixture
async def runtime(shared_database_url: str) -> AsyncIterator[Runtime]:
    async with open_runtime(shared_database_url) as runtime:
        yield runtime


@pytest_asyncio.fixture
async def family(runtime: Runtime) -> AsyncIterator[Family]:
    with Almanac(runtime.settings, registry=runtime.registry) as almanac:
        yield Family(runtime, almanac)
