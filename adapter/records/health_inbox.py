"""What doctor asks of inbox, events and workers: what came in, and who is there to act on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.records.health import UNFINISHED, ago
from adapter.records.workers import ALIVE

if TYPE_CHECKING:
    from adapter.settings import TableNames


def unapplied(names: TableNames) -> str:
    """Instances with inbox rows that they have not got to for long."""
    return f"""
SELECT i.ulid AS id, min(b.created_at) AS at
FROM {names.inbox} b JOIN {names.instances} i ON i.id = b.instance_id
WHERE b.applied_at IS NULL AND b.created_at < {ago()} GROUP BY i.ulid"""


def unmatched(names: TableNames) -> str:
    """Events that nobody has brought to those who wait for them for long."""
    return f"""
SELECT e.id::text AS id, e.created_at AS at FROM {names.events} e
WHERE e.matched_at IS NULL AND e.created_at < {ago()}"""


def unattended(names: TableNames) -> str:
    """Unfinished instances, where no worker is alive."""
    return f"""
SELECT i.ulid AS id, i.updated_at AS at FROM {names.instances} i
WHERE i.status IN {UNFINISHED} AND NOT EXISTS (
  SELECT 1 FROM {names.workers} w
  WHERE w.stopped_at IS NULL AND w.seen_at > {ago(str(ALIVE))})"""


def clocks(names: TableNames) -> str:
    """Workers that live, with the seconds by which their clocks are ahead of the database's."""
    return f"""
SELECT w.name, w.seen_at,
  extract(epoch FROM CAST(w.details ->> 'clock' AS timestamptz) - w.seen_at)::float8 AS ahead
FROM {names.workers} w
WHERE w.stopped_at IS NULL AND w.seen_at > {ago(str(ALIVE))} AND w.details ->> 'clock' IS NOT NULL
ORDER BY w.name"""


CLOCK = "SELECT clock_timestamp() AS now"
"""The clock that everything is due by."""

HELD = """
SELECT a.pid::text AS id, a.xact_start AS at FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.backend_type = 'client backend'
  AND a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()
  AND a.xact_start < clock_timestamp() - make_interval(secs => CAST(:held AS float8))"""
"""Sessions whose transaction keeps the server from forgetting old versions of rows."""
