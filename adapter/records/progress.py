"""How far queued steps are, as their handlers tell it: for people, decided on by nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapter.interpreter.state import Key
    from adapter.records.connection import Connection
    from adapter.settings import Settings


class Progress:
    """Writes ``workflow_step_progress`` for one set of table names."""

    def __init__(self, settings: Settings) -> None:
        self._steps = settings.tables.step_runs
        self._table = settings.tables.step_progress

    async def tell(self, connection: Connection, step: Key, token: str, value: str) -> None:
        """Writes what a handler told last, unless the step is not its own any more.

        Args:
            connection: Any.
            step: The step run.
            token: Under which it runs.
            value: JSON text.
        """
        await connection.execute(
            f"INSERT INTO {self._table} (step_run_id, value, at)"
            f" SELECT s.id, $3::jsonb, clock_timestamp() FROM {self._steps} s"
            " WHERE s.id = $1 AND s.claim_token = $2 AND s.status = 'running'"
            " ON CONFLICT (step_run_id) DO UPDATE SET value = excluded.value, at = excluded.at",
            step,
            token,
            value,
        )
