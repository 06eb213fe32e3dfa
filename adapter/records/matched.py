"""The statement that brings emitted events to waits and triggers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Connection, text

from adapter.records.choice import SchemaChoice
from adapter.records.digests import digests_of
from adapter.records.documented import EVENT_WAIT_DIGEST, PENDING_EVENT_WAIT
from adapter.records.drawing import id_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.settings import Settings


LOOK_AHEAD = 5
"""Batches that one matcher looks over for events that other matchers have not locked."""


@dataclass(frozen=True, slots=True)
class Hook:
    """An event that may start an instance of a version; ``conditional`` says that it depends."""

    event: str
    version: str
    checksum: str
    conditional: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of a batch of events: their number, the inbox rows, and who may be started."""

    events: int
    deliveries: int
    hooks: list[Hook]


_BY_INDEX = text("SET LOCAL enable_seqscan = off")


def matched_of(settings: Settings) -> Matched:
    """Returns the statements for these settings; the same object whenever the choice is."""
    return _matched(SchemaChoice.of(settings))


class Matched:
    """The statements for one choice of names."""

    def __init__(self, choice: SchemaChoice) -> None:
        names = choice.tables
        digests = digests_of(
            names.event_fields, key="t.key", payload="t.payload", when="r.epoch > t.epoch"
        )
        # Statistics never know a burst of events, so nothing here is left to them: unmatched
        # events are found one by one along their index (a plain ORDER BY would sort all of them
        # for each batch), and OFFSET 0 keeps waits and instances from being read as a whole.
        self._match = text(f"""
WITH RECURSIVE next AS (
  (SELECT id FROM {names.events} WHERE matched_at IS NULL ORDER BY id LIMIT 1)
  UNION ALL
  SELECT (SELECT e.id FROM {names.events} e WHERE e.matched_at IS NULL AND e.id > next.id
    ORDER BY e.id LIMIT 1)
  FROM next WHERE next.id IS NOT NULL),
taken AS MATERIALIZED (
  SELECT e.* FROM (SELECT id FROM next LIMIT {LOOK_AHEAD} * CAST(:most AS integer)) AS c
  CROSS JOIN LATERAL (
    SELECT id, key, owner_scope, payload, digests, epoch FROM {names.events}
    WHERE id = c.id AND matched_at IS NULL OFFSET 0 FOR UPDATE SKIP LOCKED) AS e
  LIMIT CAST(:most AS integer)),
known AS MATERIALIZED (
  SELECT k.key, max(f.epoch) AS epoch FROM (SELECT DISTINCT key FROM taken) k
  JOIN {names.event_fields} f ON f.event_key = k.key GROUP BY k.key),
fresh AS MATERIALIZED (
  SELECT t.id, t.key, t.owner_scope, t.payload, greatest(t.epoch, f.epoch) AS epoch,
    CASE WHEN f.epoch > t.epoch THEN f.digests ELSE t.digests END AS digests
  FROM taken t LEFT JOIN known r ON r.key = t.key CROSS JOIN LATERAL ({digests}) AS f),
fitting AS (
  SELECT DISTINCT ON (w.id) w.instance_id, e.id AS event_id
  FROM fresh e CROSS JOIN LATERAL unnest(e.digests) AS g(digest)
  CROSS JOIN LATERAL (
    SELECT id, instance_id FROM {names.waits}
    WHERE {EVENT_WAIT_DIGEST} = g.digest AND {PENDING_EVENT_WAIT}
      AND event_key = e.key AND match <@ e.payload OFFSET 0) AS w
  CROSS JOIN LATERAL (
    SELECT status, owner_type, owner_id FROM {names.instances}
    WHERE id = w.instance_id OFFSET 0) AS i
  WHERE i.status NOT IN ('completed', 'failed', 'cancelled')
    AND (e.owner_scope = '*'
      OR e.owner_scope = coalesce(i.owner_type || ':' || i.owner_id::text, '*'))
  ORDER BY w.id, e.id),
delivered AS (
  INSERT INTO {names.inbox} (instance_id, kind, event_id)
  SELECT DISTINCT instance_id, 'event', event_id FROM fitting ORDER BY event_id
  ON CONFLICT (instance_id, event_id) DO NOTHING RETURNING 1),
marked AS (
  UPDATE {names.events} e SET matched_at = clock_timestamp(), digests = f.digests, epoch = f.epoch
  FROM fresh f WHERE e.id = f.id RETURNING 1),
{_HOOKS.format_map(names.model_dump())}
SELECT (SELECT count(*) FROM marked) AS events, (SELECT count(*) FROM delivered) AS deliveries,
  (SELECT jsonb_agg(jsonb_build_array(event_id::text, version_id::text, checksum, conditional)
    ORDER BY event_id, version_id) FROM hooks)::text AS hooks""")
        key = id_type(choice)
        self._payloads = text(
            f"SELECT id::text, payload::text FROM {names.events}"
            f" WHERE id = ANY (CAST(CAST(:ids AS text[]) AS {key}[]))"
        )
        self._graph = text(
            f"SELECT graph::text FROM {names.versions} WHERE id = CAST(CAST(:id AS text) AS {key})"
        )

    def match(self, connection: Connection, most: int) -> Batch:
        """Takes up to ``most`` unmatched events, lowest ids first, and tells the waits they fit."""
        # Until the end of this transaction: statistics of a burst are always out of date.
        connection.execute(_BY_INDEX)
        row = connection.execute(self._match, {"most": most}).one()
        hooks = [Hook(*hook) for hook in orjson.loads(row.hooks or "[]")]
        return Batch(row.events, row.deliveries, hooks)

    def payloads(self, connection: Connection, ids: Sequence[str]) -> dict[str, Any]:
        """Returns the payloads of events, by id."""
        rows = connection.execute(self._payloads, {"ids": list(ids)})
        return {row[0]: orjson.loads(row[1]) for row in rows}

    def graph(self, connection: Connection, version: str) -> Any:
        """Returns a version's document."""
        return orjson.loads(connection.execute(self._graph, {"id": version}).scalar_one())


# An owner's definition takes the place of the application-wide one with the same key.
_HOOKS = """hooks AS (
  SELECT e.id AS event_id, v.id AS version_id, v.checksum,
    v.trigger ->> 'condition' IS NOT NULL AS conditional
  FROM {versions} v JOIN {definitions} d ON d.current_version_id = v.id
  JOIN fresh e ON e.key = v.trigger_key
  WHERE v.trigger_type = 'event' AND v.status = 'published'
    AND v.trigger_key = ANY (ARRAY(SELECT DISTINCT key FROM taken))
    AND d.status = 'active' AND d.deleted_at IS NULL
    AND (d.owner_scope = e.owner_scope OR d.owner_scope = '*' AND NOT EXISTS (
      SELECT 1 FROM {definitions} own WHERE own.owner_scope = e.owner_scope AND own.key = d.key
        AND own.deleted_at IS NULL AND own.current_version_id IS NOT NULL)))"""


@lru_cache(maxsize=32)
def _matched(choice: SchemaChoice) -> Matched:
    return Matched(choice)
