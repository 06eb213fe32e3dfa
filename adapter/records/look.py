"""The look: which stored events an open wait may take.

A wait finds its events by one digest of key and match, which both sides compute in SQL, so that a
look costs the same whatever else is stored. Events that were emitted before the wait's set of
fields was published carry no such digest; they are told by their epoch and tested one by one, for
equal values as the others, where ``@>`` alone would take objects and lists that hold more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from adapter.interpreter.events import StoredEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapter.interpreter.state import AcceptFrom, Key, Wait
    from adapter.records.connection import Connection
    from adapter.settings import Settings

BATCH = 100
"""Events that one look brings ahead of their waits."""


class Looker:
    """Looks for stored events, for one set of table names and key types."""

    def __init__(self, settings: Settings) -> None:
        names = settings.tables
        key = {"bigint": "bigint", "uuid": "uuid", "ulid": "bpchar"}[settings.primary_key_type]
        self._text_key = settings.primary_key_type != "bigint"
        wanted = f"""
    e.key = $1 AND e.payload @> $2::jsonb
    AND ($3::varchar IS NULL OR (
      e.xid >= pg_snapshot_xmin($3::varchar::pg_snapshot)
      AND NOT pg_visible_in_snapshot(e.xid, $3::varchar::pg_snapshot)))
    AND ($4::{key} IS NULL OR e.id > $4::{key})
    AND e.id <> ALL ($5::{key}[])
    AND (e.owner_scope = '*' OR e.owner_scope = $6)"""
        # The oldest event's epoch costs one step in an index. Without that gate an empty second
        # part would read every event of the key: the planner cannot know that no epoch is so low.
        self._query = f"""
WITH needed AS (
  SELECT f.epoch FROM {names.event_fields} f
  WHERE f.event_key = $1
    AND f.fields = ARRAY(SELECT k FROM jsonb_object_keys($2::jsonb) k ORDER BY k COLLATE "C")
)
SELECT DISTINCT ON (id) id, payload, created_at FROM (
  (SELECT e.id, e.payload, e.created_at FROM {names.events} e
   WHERE e.digests @> ARRAY[md5($1 || chr(10) || $2::jsonb::text)::uuid] AND {wanted}
   ORDER BY e.id LIMIT {BATCH})
  UNION ALL
  (SELECT e.id, e.payload, e.created_at FROM {names.events} e
   WHERE (SELECT min(o.epoch) FROM {names.events} o WHERE o.key = $1) < (SELECT epoch FROM needed)
     AND e.epoch < (SELECT epoch FROM needed) AND {wanted}
     AND NOT EXISTS (SELECT 1 FROM jsonb_each($2::jsonb) m
       WHERE (e.payload -> m.key) IS DISTINCT FROM m.value)
   ORDER BY e.id LIMIT {BATCH})
) found ORDER BY id LIMIT {BATCH}
"""

    async def look(
        self,
        connection: Connection,
        wait: Wait,
        *,
        accept_from: AcceptFrom,
        consumed: Iterable[Key],
        owner_scope: str,
    ) -> list[StoredEvent]:
        """Returns what the wait may take, lowest id first, as of this statement's snapshot.

        Args:
            connection: Outside a transaction; the statement must begin after the wait's commit,
                or an event between the two is lost.
            wait: An open wait for an event.
            accept_from: From where on events count for this instance.
            consumed: Events that the instance has taken before.
            owner_scope: The instance's owner; others' events are not for it.
        """
        rows = await connection.fetch(
            self._query,
            wait.event,
            orjson.dumps(dict(wait.match or {})).decode(),
            accept_from.snapshot,
            accept_from.after,
            list(consumed),
            owner_scope,
        )
        return [
            StoredEvent(
                str(row["id"]) if self._text_key else row["id"],
                orjson.loads(row["payload"]),
                row["created_at"],
            )
            for row in rows
        ]
