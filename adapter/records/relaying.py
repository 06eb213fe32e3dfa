"""What the relay asks of the record: which instances are to be poked.

A claim is a mark (``poked_at``) on rows taken by id, committed before anything is sent. Marks are
hints: a row that was poked and is still unapplied is poked again after 5 s, then at doubling
distances up to 5 min, so a relay that dies with claims in hand loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.records.awaited import unheard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.settings import Settings

AGAIN_FIRST = 5.0
AGAIN_MOST = 300.0
SWEEP_LOCK = 0x616C6D61
"""The advisory lock under which one worker at a time sweeps."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An instance to be poked.

    Attributes:
        ulid: Which one.
        definition: The key of its definition.
        owner: The scope of its owner, ``*`` for none.
    """

    ulid: str
    definition: str
    owner: str


class Relaying:
    """Claims rows for one set of table names."""

    def __init__(self, settings: Settings) -> None:
        names = settings.tables
        claim = f"""i.ulid, d.key AS definition,
  coalesce(i.owner_type || ':' || i.owner_id::text, '*') AS owner
FROM {names.instances} i JOIN {names.definitions} d ON d.id = i.definition_id"""
        pick = """
WITH picked AS (
  SELECT b.id FROM {inbox} b WHERE {where} ORDER BY b.id LIMIT $1 FOR UPDATE SKIP LOCKED
), marked AS (
  UPDATE {inbox} b SET poked_at = clock_timestamp() FROM picked p WHERE b.id = p.id
  RETURNING b.instance_id
)
SELECT {claim} WHERE i.id IN (SELECT m.instance_id FROM marked m)"""
        fresh = "b.applied_at IS NULL AND b.poked_at IS NULL AND b.kind {is_start} 'start'"
        again = f"""b.applied_at IS NULL AND b.poked_at < clock_timestamp()
            - make_interval(secs => least({AGAIN_MOST}, greatest({AGAIN_FIRST},
                extract(epoch FROM b.poked_at - b.created_at))))"""
        tables = {"inbox": names.inbox, "claim": claim}
        self._starts = pick.format(where=fresh.format(is_start="="), **tables)
        self._pokes = pick.format(where=fresh.format(is_start="<>"), **tables)
        self._again = pick.format(where=again, **tables)
        self._peek = f"""
SELECT EXISTS (SELECT 1 FROM {names.inbox} WHERE applied_at IS NULL AND poked_at IS NULL) AS inbox,
  EXISTS (SELECT 1 FROM {names.events} WHERE matched_at IS NULL) AS events"""
        self._release = f"""
UPDATE {names.inbox} b SET poked_at = NULL WHERE b.applied_at IS NULL AND b.instance_id IN (
  SELECT i.id FROM {names.instances} i WHERE i.ulid = ANY ($1::bpchar[]))"""
        self._cancelled = f"""
SELECT DISTINCT i.ulid FROM {names.instances} i JOIN {names.inbox} b ON b.instance_id = i.id
WHERE i.ulid = ANY ($1::bpchar[]) AND b.applied_at IS NULL AND b.kind = 'cancel'"""
        self._due = f"""
SELECT {claim} WHERE i.id IN (
  SELECT w.instance_id FROM {names.waits} w
  WHERE w.status = 'pending' AND w.due_at < clock_timestamp() - interval '10 seconds'
  UNION
  SELECT s.instance_id FROM {names.step_runs} s
  WHERE s.status = 'retrying' AND s.scheduled_for < clock_timestamp() - interval '10 seconds'
  UNION
  SELECT s.instance_id FROM {names.step_runs} s
  WHERE s.status = 'scheduled' AND s.updated_at < clock_timestamp() - interval '10 seconds'
  UNION
  SELECT s.instance_id FROM {names.step_runs} s
  WHERE s.status = 'running'
    AND coalesce(s.lease_until, s.updated_at + interval '10 seconds') < clock_timestamp()
  UNION{unheard(names)}
) AND i.status IN ('running', 'waiting') AND i.ulid > $2 ORDER BY i.ulid LIMIT $1"""

    async def peek(self, connection: Any) -> tuple[bool, bool]:
        """Whether inbox rows wait for a poke, and events for a match; marks nothing."""
        row = await connection.fetchrow(self._peek)
        return row["inbox"], row["events"]

    async def claim_starts(self, connection: Any, limit: int) -> list[Claim]:
        """Marks start rows that nobody has poked for, lowest id first."""
        return self._claims(await connection.fetch(self._starts, limit))

    async def claim_pokes(self, connection: Any, limit: int) -> list[Claim]:
        """Marks all other rows that nobody has poked for, lowest id first."""
        return self._claims(await connection.fetch(self._pokes, limit))

    async def claim_again(self, connection: Any, limit: int) -> list[Claim]:
        """Marks rows again whose poke led to nothing."""
        return self._claims(await connection.fetch(self._again, limit))

    async def release(self, connection: Any, ulids: Sequence[str]) -> None:
        """Takes the marks back from instances that nobody could be told of."""
        await connection.execute(self._release, list(ulids))

    async def cancelled(self, connection: Any, ulids: Sequence[str]) -> list[str]:
        """Those of the instances that somebody has asked to cancel."""
        rows = await connection.fetch(self._cancelled, list(ulids))
        return [row["ulid"] for row in rows]

    async def overdue(self, connection: Any, limit: int, after: str = "") -> list[Claim]:
        """Instances with something due for ten seconds; the caller holds the sweep's lock.

        Args:
            connection: Any.
            limit: How many, in the order of their ulids.
            after: Only those after this ulid.
        """
        return self._claims(await connection.fetch(self._due, limit, after))

    async def sweep(self, connection: Any, limit: int, after: str = "") -> list[Claim]:
        """What ``overdue`` finds, if no other worker sweeps just now."""
        async with connection.transaction():
            if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", SWEEP_LOCK):
                return []
            return await self.overdue(connection, limit, after)

    @staticmethod
    def _claims(rows: Any) -> list[Claim]:
        return [Claim(row["ulid"], row["definition"], row["owner"]) for row in rows]
