"""The workers' own rows: one for every process, renewed each second while it lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import text

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection as SyncConnection

    from adapter.settings import Settings

GAP = 3.0
"""Seconds without a sign of life from which on a worker counts as gone."""


ALIVE = 10.0
"""The same for health checks, which must not take a slow second for a death."""


def count_alive(connection: SyncConnection, settings: Settings, host: str | None = None) -> int:
    """Returns how many workers live, by their rows.

    Args:
        connection: Any open connection.
        settings: Names the table and the task queue.
        host: Only workers of this host and of the settings' task queue; None counts all.
    """
    row: dict[str, Any] = {"alive": ALIVE}
    own = ""
    if host is not None:
        row |= {"host": f"{host}:"[:191], "queue": settings.task_queue}
        own = " AND starts_with(name, :host) AND task_queue = :queue"
    query = text(
        f"SELECT count(*) FROM {settings.tables.workers} WHERE stopped_at IS NULL"
        f" AND seen_at > clock_timestamp() - make_interval(secs => :alive){own}"
    )
    return int(connection.execute(query, row).scalar_one())


class Workers:
    """Reads and writes ``workflow_workers``."""

    def __init__(self, settings: Settings) -> None:
        self._table = settings.tables.workers

    async def beat(
        self, connection: Any, worker: str, *, name: str, task_queue: str, details: dict[str, Any]
    ) -> None:
        """Writes or renews a worker's row."""
        await connection.execute(
            f"INSERT INTO {self._table} (id, name, task_queue, started_at, seen_at, details)"
            " VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp(), $4)"
            " ON CONFLICT (id) DO UPDATE"
            " SET seen_at = clock_timestamp(), details = excluded.details",
            worker,
            name[:191],
            task_queue,
            orjson.dumps(details).decode(),
        )

    async def leave(self, connection: Any, worker: str) -> None:
        """Marks a worker as stopped on purpose."""
        await connection.execute(
            f"UPDATE {self._table} SET stopped_at = clock_timestamp() WHERE id = $1", worker
        )

    async def expire(self, connection: Any, *, days: int = 7, limit: int = 500) -> None:
        """Drops rows of workers that have not been seen for some days; at most ``limit``."""
        await connection.execute(
            f"DELETE FROM {self._table} WHERE id IN (SELECT id FROM {self._table}"
            " WHERE seen_at < clock_timestamp() - make_interval(days => $1) LIMIT $2)",
            days,
            limit,
        )

    async def gone(self, connection: Any, workers: Collection[str]) -> frozenset[str]:
        """Those of ``workers`` that died: unknown, or silent for ``GAP`` without having left.

        One that left on purpose, or lives and was only slow, did not die of the step it had.
        """
        rows = await connection.fetch(
            f"SELECT id FROM {self._table} WHERE id = ANY ($1::varchar[])"
            " AND (stopped_at IS NOT NULL"
            " OR seen_at > clock_timestamp() - make_interval(secs => $2))",
            list(workers),
            GAP,
        )
        return frozenset(workers) - {row["id"] for row in rows}
