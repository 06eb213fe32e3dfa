"""One database per module, emptied of instances and events before each test."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import pytest_asyncio

from tests.execution.runtime import Runtime, open_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from temporal_workflows.dev.stack import Stack


@pytest.fixture(scope="module")
def attacked_url(stack: Stack, migrated_template: str) -> Iterator[str]:
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {migrated_template}")
    yield urlunsplit(urlsplit(stack.database_url)._replace(path=f"/{name}"))
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest_asyncio.fixture
async def runtime(attacked_url: str) -> AsyncIterator[Runtime]:
    async with open_runtime(attacked_url) as runtime:
        await runtime.pool.execute(
            "DELETE FROM workflow_instances; DELETE FROM workflow_events;"
            " DELETE FROM workflow_event_fields; DELETE FROM workflow_workers"
        )
        yield runtime
