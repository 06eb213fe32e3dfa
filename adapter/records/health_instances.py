"""What is asked of instances in order to compare them with the engine's executions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.records.children import ENDED
from adapter.records.health import UNFINISHED, ago

if TYPE_CHECKING:
    from adapter.settings import TableNames

THESE = "i.ulid = ANY (CAST(:ulids AS bpchar[]))"


def settled(names: TableNames, seconds: int) -> str:
    """Unfinished instances that should have had an execution for so long.

    What has changed only just, or is about to be poked, has none lawfully; and one that was never
    told to start has more missing than an execution.
    """
    late = ago(str(seconds))
    return f"""
SELECT i.ulid AS id, i.updated_at AS at FROM {names.instances} i
WHERE i.status IN {UNFINISHED} AND i.updated_at < {late}
  AND NOT EXISTS (
    SELECT 1 FROM {names.inbox} b WHERE b.instance_id = i.id AND b.applied_at IS NULL
      AND (b.poked_at IS NULL OR b.poked_at > {late}))
  AND (i.status <> 'pending' OR EXISTS (
    SELECT 1 FROM {names.inbox} b WHERE b.instance_id = i.id AND b.applied_at IS NULL))"""


def unfinished(names: TableNames) -> str:
    """A page of unfinished instances by ulid, those after ``:after``."""
    return f"""
SELECT i.ulid FROM {names.instances} i
WHERE i.status IN {UNFINISHED} AND i.ulid > CAST(:after AS bpchar)
ORDER BY i.ulid LIMIT CAST(:most AS integer)"""


def count_unfinished(names: TableNames) -> str:
    """How many there are."""
    return f"SELECT count(*) AS many FROM {names.instances} i WHERE i.status IN {UNFINISHED}"


def standing(names: TableNames, seconds: int) -> str:
    """How instances stand: ``over`` is whether they have not been driven for so long."""
    return f"""
SELECT i.ulid, i.updated_at, i.ended_at,
  i.status IN {ENDED} AND i.ended_at < {ago(str(seconds))} AND NOT EXISTS (
    SELECT 1 FROM {names.inbox} b WHERE b.instance_id = i.id AND b.applied_at IS NULL) AS over
FROM {names.instances} i WHERE {THESE}"""


def labelled(names: TableNames) -> str:
    """What the executions of instances are found by."""
    return f"""
SELECT i.ulid, i.status, d.key AS definition,
  coalesce(i.owner_type || ':' || i.owner_id::text, '*') AS owner
FROM {names.instances} i JOIN {names.definitions} d ON d.id = i.definition_id WHERE {THESE}"""
