from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from ulid import ULID

from tests.records.databases import fresh_database
from tests.workflow.system import System, open_system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from temporal_workflows.dev.stack import Stack

pytest.register_assert_rewrite("tests.workflow.checks")


@pytest_asyncio.fixture
async def system(database_url: str, temporal_address: str) -> AsyncIterator[System]:
    async with open_system(database_url, temporal_address, queue=str(ULID())) as system:
        yield system


@pytest.fixture(scope="module")
def matrix_database_url(stack: Stack, migrated_template: str) -> Iterator[str]:
    """A database for all cells of a module."""
    with fresh_database(stack, template=migrated_template) as url:
        yield url
