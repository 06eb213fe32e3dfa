"""What doctor asks of rows that should not be: left over, cut off, or telling two stories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.records.awaited import unheard as unheard_waits
from adapter.records.children import ENDED
from adapter.records.drawing import SNAPSHOT
from adapter.records.health import UNFINISHED, ago

if TYPE_CHECKING:
    from adapter.settings import TableNames

OPEN_STEP = "('scheduled', 'running', 'waiting', 'retrying')"


def orphaned_children(names: TableNames) -> str:
    """Unfinished instances whose parent has ended without letting them go, or is not there.

    A parent that did not wait for a child leaves it to itself.
    """
    return f"""
SELECT c.ulid AS id, coalesce(p.ended_at, c.updated_at) AS at
FROM {names.instances} c LEFT JOIN {names.instances} p ON p.id = c.parent_instance_id
WHERE c.depth > 0 AND c.status IN {UNFINISHED} AND (
  p.id IS NULL OR (p.status IN {ENDED} AND p.ended_at < {ago()} AND EXISTS (
    SELECT 1 FROM {names.waits} w
    WHERE w.step_run_id = c.parent_step_run_id AND w.kind = 'instances')))
  AND NOT EXISTS (
    SELECT 1 FROM {names.inbox} b
    WHERE b.instance_id = c.id AND b.applied_at IS NULL AND b.kind = 'cancel')"""


def unheard(names: TableNames, seconds: int) -> str:
    """Instances that wait for one that ended long ago."""
    return f"""
SELECT i.ulid AS id, i.updated_at AS at FROM {names.instances} i
WHERE i.status IN ('running', 'waiting') AND i.id IN ({unheard_waits(names, seconds)})"""


def cut_off(names: TableNames) -> str:
    """Rows that are to be acted on, of instances that are not there; ids are ``table:id``."""
    parts = (
        (names.waits, "t.status = 'pending'"),
        (names.step_runs, f"t.status IN {OPEN_STEP}"),
        (names.inbox, "t.applied_at IS NULL"),
    )
    return " UNION ALL ".join(
        f"SELECT '{table}:' || t.id AS id, t.created_at AS at FROM {table} t WHERE {which}"
        f" AND NOT EXISTS (SELECT 1 FROM {names.instances} i WHERE i.id = t.instance_id)"
        for table, which in parts
    )


def drop_cut_off(names: TableNames) -> list[str]:
    """Deletes such rows, up to ``:most`` of each table."""
    parts = (
        (names.waits, "t.status = 'pending'"),
        (names.inbox, "t.applied_at IS NULL"),
        (names.step_runs, f"t.status IN {OPEN_STEP}"),
    )
    return [
        f"DELETE FROM {table} WHERE id IN (SELECT t.id FROM {table} t WHERE {which}"
        f" AND NOT EXISTS (SELECT 1 FROM {names.instances} i WHERE i.id = t.instance_id)"
        " LIMIT CAST(:most AS integer))"
        for table, which in parts
    ]


def left_open(names: TableNames) -> str:
    """Ended instances with steps or waits that are still open."""
    return f"""
SELECT i.ulid AS id, min(i.ended_at) AS at FROM (
  SELECT w.instance_id FROM {names.waits} w WHERE w.status = 'pending'
  UNION ALL
  SELECT s.instance_id FROM {names.step_runs} s WHERE s.status IN {OPEN_STEP}) o
JOIN {names.instances} i ON i.id = o.instance_id
WHERE i.status IN {ENDED} GROUP BY i.ulid"""


def close_left_open(names: TableNames) -> list[str]:
    """Closes them as the end of the instance does; the first one locks those that have ended."""
    ended = (
        f"SELECT i.id FROM {names.instances} i"
        f" WHERE i.ulid = ANY (CAST(:ulids AS bpchar[])) AND i.status IN {ENDED}"
    )
    return [
        f"{ended} FOR NO KEY UPDATE",
        f"UPDATE {names.waits} SET status = 'cancelled', claimed_at = clock_timestamp(),"
        f" updated_at = clock_timestamp() WHERE status = 'pending' AND instance_id IN ({ended})",
        f"UPDATE {names.step_runs} SET status = 'cancelled', finished_at = clock_timestamp(),"
        " updated_at = clock_timestamp(), claim_token = NULL, lease_until = NULL"
        f" WHERE status IN {OPEN_STEP} AND instance_id IN ({ended})",
    ]


def stalled(names: TableNames) -> str:
    """Unfinished instances with nothing that could make them go on."""
    return f"""
SELECT i.ulid AS id, i.updated_at AS at FROM {names.instances} i
WHERE i.status IN ('pending', 'running', 'waiting') AND i.updated_at < {ago()}
  AND NOT EXISTS (
    SELECT 1 FROM {names.inbox} b WHERE b.instance_id = i.id AND b.applied_at IS NULL)
  AND NOT EXISTS (
    SELECT 1 FROM {names.step_runs} s WHERE s.instance_id = i.id AND s.status IN {OPEN_STEP})
  AND NOT EXISTS (
    SELECT 1 FROM {names.waits} w WHERE w.instance_id = i.id AND w.status = 'pending')"""


def start_again(names: TableNames) -> str:
    """Writes the start row of instances that have never begun, and have none."""
    return f"""
WITH moment AS MATERIALIZED ({SNAPSHOT})
INSERT INTO {names.inbox} (instance_id, kind, payload, sender)
SELECT i.id, 'start', jsonb_build_object('snapshot', moment.snapshot, 'after', NULL), 'doctor'
FROM {names.instances} i, moment
WHERE i.ulid = ANY (CAST(:ulids AS bpchar[])) AND i.status = 'pending' AND i.lock_version = 0
  AND NOT EXISTS (
    SELECT 1 FROM {names.inbox} b WHERE b.instance_id = i.id AND b.kind = 'start')"""


def broken_journals(names: TableNames) -> str:
    """Unfinished instances whose row and journal are not of one moment."""
    return f"""
SELECT i.ulid AS id, i.updated_at AS at
FROM {names.instances} i LEFT JOIN LATERAL (
  SELECT j.seq FROM {names.journal} j WHERE j.instance_id = i.id ORDER BY j.seq DESC LIMIT 1
) last ON true
WHERE i.status IN {UNFINISHED} AND i.lock_version <> coalesce(last.seq, 0)"""
