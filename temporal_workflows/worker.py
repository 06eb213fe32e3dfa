"""The worker: the composition root that connects turns, handlers, relay and Temporal."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkflowRunner
from ulid import ULID

from adapter.engine.temporal import TemporalEngine
from adapter.errors import Misconfigured
from adapter.execution.deps import turn_deps
from adapter.execution.registry import Registry, default_registry
from adapter.execution.runner import HandlerRunner
from adapter.interpreter.version import CURRENT
from adapter.records.connecting import make_database
from adapter.records.pooling import make_pool
from adapter.services.matching import match_events
from temporal_workflows.activities import TurnActivities
from temporal_workflows.driver import InstanceDriver
from temporal_workflows.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy import Engine as Database

    from adapter.records.workers import Workers
    from adapter.settings import Settings

LOGGER = logging.getLogger("almanac.worker")

STICKY_TIMEOUT = timedelta(seconds=2)
"""How long a task waits for the worker that cached the instance: a killed one delays no longer."""

MATCH_BATCH = 500
BEAT = 1.0
RELAY_CONNECTIONS = 4


@asynccontextmanager
async def running_worker(
    settings: Settings,
    registry: Registry = default_registry,
    *,
    client: Client | None = None,
    workflow_runner: WorkflowRunner | None = None,
) -> AsyncIterator[Relay]:
    """Runs a worker as long as the context is open.

    Args:
        settings: ``database_url`` and ``temporal_address`` must be set.
        registry: The actions that it has handlers for.
        client: Used instead of connecting to ``temporal_address``.
        workflow_runner: Unsandboxed by default: the driver decides nothing that a sandbox could
            protect, and the sandbox halves its speed.

    Raises:
        Misconfigured: A setting is missing.
    """
    client = client or await connect(settings)
    worker_id = str(ULID())
    pool = await make_pool(settings, settings.worker.connections)
    relay_pool = await make_pool(settings, RELAY_CONNECTIONS)
    database = make_database(settings)
    matcher = ThreadPoolExecutor(1, thread_name_prefix="almanac-matcher")
    runner = HandlerRunner()
    runner.start()
    stopping = asyncio.Event()
    deps = turn_deps(
        settings,
        pool,
        worker=worker_id,
        registry=registry,
        runner=runner,
        new_token=lambda: str(ULID()),
    )
    relay = Relay(
        settings,
        relay_pool,
        TemporalEngine(client, settings.task_queue),
        lambda: asyncio.get_running_loop().run_in_executor(matcher, _match, database, settings),
    )
    slots = settings.worker.turns
    worker = Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[InstanceDriver],
        activities=[TurnActivities(deps, stopping, relay.ended).turn],
        workflow_runner=workflow_runner or UnsandboxedWorkflowRunner(),
        # Without a name of its own the client library hashes every loaded module for one, which
        # takes longer than all the rest of a start.
        build_id=f"almanac-{CURRENT}",
        # Fewer turns than workflow tasks: a full house of turns must not stop pokes and timers.
        max_concurrent_local_activities=slots,
        max_concurrent_workflow_tasks=2 * slots + 8,
        max_cached_workflows=5_000,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        graceful_shutdown_timeout=timedelta(seconds=10),
    )
    beat = _Beat(deps.workers, relay_pool, settings, worker_id, relay)
    await beat.once()
    background = [
        asyncio.create_task(relay.run(), name="almanac-relay"),
        asyncio.create_task(beat.run(), name="almanac-beat"),
    ]
    try:
        async with worker:
            try:
                yield relay
            finally:
                # Before the worker shuts down: its turns then return at their next boundary.
                stopping.set()
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await beat.leave()
        runner.stop()
        await asyncio.gather(pool.close(), relay_pool.close())
        # A batch that is being matched has a connection, which must be back to be closed.
        await asyncio.to_thread(matcher.shutdown)
        database.dispose()


async def run_worker(settings: Settings, registry: Registry = default_registry) -> None:
    """Runs a worker until it is cancelled."""
    async with running_worker(settings, registry):
        await asyncio.Event().wait()


async def connect(settings: Settings) -> Client:
    """Connects to Temporal.

    Raises:
        Misconfigured: No address is set.
    """
    if settings.temporal_address is None:
        raise Misconfigured("no Temporal server is named; set ALMANAC_TEMPORAL_ADDRESS")
    return await Client.connect(settings.temporal_address, namespace=settings.temporal_namespace)


def _match(database: Database, settings: Settings) -> int:
    with database.begin() as connection:
        return match_events(connection, settings, MATCH_BATCH).events


class _Beat:
    """The worker's own row: a sign of life each second."""

    def __init__(
        self, workers: Workers, pool: Any, settings: Settings, worker: str, relay: Relay
    ) -> None:
        self._workers = workers
        self._pool = pool
        self._queue = settings.task_queue
        self._worker = worker
        self._relay = relay
        self._name = f"{socket.gethostname()}:{os.getpid()}"

    async def once(self) -> None:
        report = self._relay.report
        details = {
            "started": report.started,
            "poked": report.poked,
            "again": report.again,
            "swept": report.swept,
            "matched": report.matched,
            "errors": report.errors,
            "last_error": report.last_error,
        }
        async with self._pool.acquire() as connection:
            await self._workers.beat(
                connection, self._worker, name=self._name, task_queue=self._queue, details=details
            )

    async def run(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            try:
                await self.once()
            except Exception as error:
                LOGGER.warning("heartbeat of worker %s: %s", self._worker, error)

    async def leave(self) -> None:
        try:
            async with self._pool.acquire() as connection:
                await self._workers.leave(connection, self._worker)
        except (asyncpg.PostgresError, OSError) as error:
            LOGGER.warning("worker %s could not sign off: %s", self._worker, error)
