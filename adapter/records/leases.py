"""The leases of queued steps: renewed by whoever runs one, read by whoever might take it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapter.interpreter.state import Key
    from adapter.records.connection import Connection
    from adapter.settings import Settings


class Leases:
    """Reads and renews ``lease_until`` for one set of table names.

    A renewal is the one change of a step run that no append makes: it moves nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self._steps = settings.tables.step_runs
        self._text_key = settings.primary_key_type != "bigint"

    async def expired(self, connection: Connection, steps: frozenset[Key]) -> frozenset[Key]:
        """Those of the running steps whose lease is over, or that never had one."""
        rows = await connection.fetch(
            f"SELECT id FROM {self._steps} WHERE id = ANY ($1) AND status = 'running'"
            " AND coalesce(lease_until, '-infinity') <= clock_timestamp()",
            list(steps),
        )
        return frozenset(str(row["id"]) if self._text_key else row["id"] for row in rows)

    async def rest(self, connection: Connection, step: Key) -> float:
        """Seconds that are left of a running step's lease; 0 when it is over."""
        left = await connection.fetchval(
            "SELECT greatest(extract(epoch FROM lease_until - clock_timestamp()), 0)::float8"
            f" FROM {self._steps} WHERE id = $1 AND status = 'running'",
            step,
        )
        return float(left or 0)

    async def renew(self, connection: Connection, step: Key, token: str, seconds: float) -> bool:
        """Renews a lease.

        Returns:
            False when the step is not running under that token any more.
        """
        row = await connection.fetchrow(
            f"UPDATE {self._steps} SET lease_until ="
            " clock_timestamp() + make_interval(secs => $3)"
            " WHERE id = $1 AND claim_token = $2 AND status = 'running' RETURNING 1",
            step,
            token,
            seconds,
        )
        return row is not None
