"""Rows written by hand, as a run would write them: step runs with their lines, and children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Iterable

WRITER = "01JZ8X0V5M6T3C2R9Q4K7W1N8B"
OPENED = {
    "running": "step_started",
    "scheduled": "step_scheduled",
    "retrying": "step_scheduled",
    "succeeded": "step_passed",
}


class Recorded:
    """The record of one instance, to which rows are added in order.

    Args:
        url: The database.
        ulid: The instance.
    """

    def __init__(self, url: str, ulid: str) -> None:
        self._url = url
        self._ulid = ulid

    def step(
        self,
        node: str,
        line: str = "",
        *,
        type: str = "action",
        status: str = "succeeded",
        visit: int = 1,
        attempt: int = 1,
        edge: str | None = None,
        code: str | None = None,
    ) -> int:
        """Adds a step run and the entry that opened it, and returns its id."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            (step,) = connection.execute(
                "INSERT INTO workflow_step_runs (instance_id, node_id, node_type, visit, attempt,"
                " status, idempotency_key, started_at, finished_at, error_code)"
                " SELECT id, %s, %s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp(), %s"
                " FROM workflow_instances WHERE ulid = %s RETURNING id",
                (node, type, visit, attempt, status, f"{node}:{visit}", code, self._ulid),
            ).fetchone() or (0,)
        data: dict[str, Any] = {"line": line} if line else {}
        if edge is not None:
            data |= {"outcome": "success", "edge": {"to": edge, "by": "plain", "index": 0}}
        kind = "scope_opened" if type in ("parallel", "for_each", "repeat") else None
        self.entry(kind or OPENED.get(status, "step_started"), node, step, data)
        return int(step)

    def wait(self, node: str, kind: str, **data: Any) -> None:
        """Adds a step that waits, with its wait."""
        step = self.step(node, type="wait", status="waiting")
        with psycopg.connect(self._url, autocommit=True) as connection:
            (wait,) = connection.execute(
                "INSERT INTO workflow_waits (instance_id, step_run_id, kind, status)"
                " SELECT id, %s, %s, 'pending' FROM workflow_instances WHERE ulid = %s"
                " RETURNING id",
                (step, kind, self._ulid),
            ).fetchone() or (0,)
        self.entry("wait_opened", node, step, {"wait": wait, **data})

    def entry(self, kind: str, node: str, step: int, data: dict[str, Any]) -> None:
        """Adds a journal entry."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO workflow_journal (instance_id, seq, kind, step_run_id, node_id, data,"
                " writer, interpreter) SELECT i.id, coalesce(max(j.seq), 0) + 1, %s, %s, %s, %s,"
                " %s, 1 FROM workflow_instances i"
                " LEFT JOIN workflow_journal j ON j.instance_id = i.id"
                " WHERE i.ulid = %s GROUP BY i.id",
                (kind, step, node, Jsonb(data), WRITER, self._ulid),
            )

    def become(self, status: str) -> None:
        """Gives the instance a status."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "UPDATE workflow_instances SET status = %s WHERE ulid = %s", (status, self._ulid)
            )

    def adopt(self, step: int, children: Iterable[str], status: str = "pending") -> None:
        """Makes instances the children of a step."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "UPDATE workflow_instances SET parent_step_run_id = %s, status = %s,"
                " parent_instance_id = (SELECT id FROM workflow_instances WHERE ulid = %s)"
                " WHERE ulid = ANY (%s)",
                (step, status, self._ulid, list(children)),
            )
