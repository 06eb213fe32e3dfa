"""Servers of a module's own, to be stopped, killed, emptied and put back to an older state."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

import psycopg
from temporalio.client import Client
from temporalio.service import RPCError

from adapter.engine.names import workflow_id
from adapter.records.migrating import upgrade
from adapter.settings import Settings
from temporal_workflows.dev import temporal
from temporal_workflows.dev.stack import Stack
from tests.conftest import AT_ONCE
from tests.records.databases import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEMPLATE = "migrated"


@contextmanager
def own_servers() -> Iterator[Stack]:
    """PostgreSQL with a migrated template, and Temporal."""
    with (
        patch.object(temporal, "SETTINGS", (*temporal.SETTINGS, AT_ONCE)),
        Stack("postgres", "temporal", durable=False) as stack,
    ):
        with fresh_database(stack) as url:
            upgrade(url, Settings())
            name = url.rpartition("/")[2]
            with psycopg.connect(stack.database_url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE {name}".encode())
        yield stack


def wipe(stack: Stack) -> None:
    """Puts an empty Temporal server in the place of the one that runs."""
    stack.temporal.kill()
    for kept in stack.temporal.directory.glob("temporal.db*"):
        kept.unlink()
    stack.temporal.start()


def back_up(stack: Stack, backup: Path) -> None:
    """Takes a physical backup of PostgreSQL, which goes on."""
    stack.postgres.stop()
    subprocess.run(["cp", "-a", stack.postgres.directory / "data", backup], check=True)
    stack.postgres.start()


def put_back(stack: Stack, backup: Path) -> None:
    """Fails over to a backup: what was committed after it is gone."""
    stack.postgres.kill()
    shutil.rmtree(stack.postgres.directory / "data")
    subprocess.run(["cp", "-a", backup, stack.postgres.directory / "data"], check=True)
    stack.postgres.start()


def terminate(address: str, *ulids: str) -> None:
    """What an operator can do to executions in Temporal's console."""

    async def each() -> None:
        client = await Client.connect(address)
        for ulid in ulids:
            await client.get_workflow_handle(workflow_id(ulid)).terminate("a test")

    asyncio.run(each())


def executions(address: str, queue: str) -> list[str]:
    """The ids of the executions of a task queue that Temporal calls running."""

    async def listed() -> list[str]:
        client = await Client.connect(address)
        query = f"TaskQueue = '{queue}' AND ExecutionStatus = 'Running'"
        try:
            return [found.id async for found in client.list_workflows(query)]
        except RPCError as error:
            raise AssertionError(str(error)) from error

    return asyncio.run(listed())
