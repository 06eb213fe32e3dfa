"""What doctor asks of steps and waits: whose time has come, and that nobody acts on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.interpreter.entries import STEP_STARTED
from adapter.records.health import UNFINISHED, ago
from adapter.records.workers import ALIVE

if TYPE_CHECKING:
    from adapter.settings import TableNames


def leases_over(names: TableNames) -> str:
    """Instances with a queued step that runs on a lease which has been over for long."""
    return f"""
SELECT i.ulid AS id, min(s.lease_until) AS at
FROM {names.step_runs} s JOIN {names.instances} i ON i.id = s.instance_id
WHERE s.status = 'running' AND s.lease_until < {ago()} AND i.status IN {UNFINISHED}
GROUP BY i.ulid"""


def abandoned(names: TableNames) -> str:
    """Instances with an inline step that runs in a worker which is gone."""
    return f"""
SELECT i.ulid AS id, min(s.updated_at) AS at
FROM {names.step_runs} s JOIN {names.instances} i ON i.id = s.instance_id
LEFT JOIN LATERAL (
  SELECT j.data ->> 'worker' AS worker FROM {names.journal} j
  WHERE j.instance_id = s.instance_id AND j.step_run_id = s.id AND j.kind = '{STEP_STARTED}'
  ORDER BY j.seq DESC LIMIT 1) begun ON true
WHERE s.status = 'running' AND s.lease_until IS NULL AND s.updated_at < {ago()}
  AND i.status IN {UNFINISHED} AND NOT EXISTS (
    SELECT 1 FROM {names.workers} w WHERE w.id = begun.worker AND w.stopped_at IS NULL
      AND w.seen_at > {ago(str(ALIVE))})
GROUP BY i.ulid"""


def overdue(names: TableNames) -> str:
    """Instances with a wait, a delay or a back-off that should have ended long ago."""
    return f"""
SELECT i.ulid AS id, min(due.at) AS at FROM (
  SELECT w.instance_id, w.due_at AS at FROM {names.waits} w
  WHERE w.status = 'pending' AND w.due_at < {ago()}
  UNION ALL
  SELECT s.instance_id, s.scheduled_for FROM {names.step_runs} s
  WHERE s.status = 'retrying' AND s.scheduled_for < {ago()}) due
JOIN {names.instances} i ON i.id = due.instance_id
WHERE i.status IN ('running', 'waiting') GROUP BY i.ulid"""


def unclaimed(names: TableNames) -> str:
    """Instances with a step that may run, and that nobody has begun for long."""
    return f"""
SELECT i.ulid AS id, min(s.updated_at) AS at
FROM {names.step_runs} s JOIN {names.instances} i ON i.id = s.instance_id
WHERE s.status = 'scheduled' AND s.updated_at < {ago()}
  AND coalesce(s.scheduled_for, '-infinity') < {ago()} AND i.status IN ('running', 'waiting')
GROUP BY i.ulid"""
