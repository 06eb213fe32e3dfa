"""A worker's sign of life: its row in the tables, renewed each second with what its relay did."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from adapter.records.workers import Workers
    from adapter.settings import Settings
    from temporal_workflows.relay import Relay

LOGGER = logging.getLogger("almanac.worker")

BEAT = 1.0
"""Seconds between two signs; three missed ones count as a death."""


class Heartbeat:
    """The worker's own row.

    Args:
        workers: Writes it.
        pool: Where to.
        settings: Names the task queue.
        worker: The worker's id.
        relay: Whose report goes with each sign.
    """

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
        """Writes or renews the row.

        Raises:
            asyncpg.PostgresError, OSError: The database cannot be reached.
        """
        report = self._relay.report
        details: dict[str, Any] = {
            "started": report.started,
            "poked": report.poked,
            "again": report.again,
            "swept": report.swept,
            "matched": report.matched,
            "errors": report.errors,
            "last_error": report.last_error,
        }
        async with self._pool.acquire() as connection:
            # The row's own times are the database's: this is for those who compare clocks.
            details["clock"] = datetime.now(UTC).isoformat()
            await self._workers.beat(
                connection, self._worker, name=self._name, task_queue=self._queue, details=details
            )

    async def run(self) -> None:
        """Renews the row until it is cancelled; outlives a database that is gone for a while."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                await self.once()
            except Exception as error:
                LOGGER.warning("heartbeat of worker %s: %s", self._worker, error)

    async def leave(self) -> None:
        """Marks the worker as stopped on purpose, if the database can be reached."""
        try:
            async with self._pool.acquire() as connection:
                await self._workers.leave(connection, self._worker)
        except (asyncpg.PostgresError, OSError) as error:
            LOGGER.warning("worker %s could not sign off: %s", self._worker, error)
