"""The statements that begin instances: an instance's row and its first inbox row, together.

One statement per start, and one per batch of starts. The definition is looked up in it, the
owner's own before the application-wide one, so that no publication can come between.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Connection, Row, TextClause, text

from adapter.records.choice import SchemaChoice
from adapter.records.columns import sql_type
from adapter.records.drawing import SNAPSHOT, id_source, id_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapter.settings import Settings

Parameters = dict[str, Any]


def starts_of(settings: Settings) -> Starts:
    """Returns the statements for these settings; the same object whenever the choice is."""
    return _starts(SchemaChoice.of(settings))


class Starts:
    """The statements for one choice of names and key types."""

    def __init__(self, choice: SchemaChoice) -> None:
        self._choice = choice
        self._names = choice.tables
        self._plain = self._one(keyed=False)
        self._keyed = self._one(keyed=True)
        self._batch = self._many()
        self._triggered = self._by_events()
        self._holder = self._held()

    def start(self, connection: Connection, values: Mapping[str, Any]) -> Row[Any] | None:
        """Starts one instance.

        Args:
            connection: Its transaction is joined.
            values: Every parameter that ``_one`` names; with ``raw_key`` (a text) and ``ttl``
                (seconds) the start is idempotent, and waits for a transaction that uses the key.

        Returns:
            None when no definition has the key. Otherwise ``status`` and ``published`` of the
            definition, ``digest`` of the idempotency key, and the instance's ``id``, which is
            null when nothing was started: the definition is not active, or the key is taken.
        """
        statement = self._plain if values.get("raw_key") is None else self._keyed
        return connection.execute(statement, dict(values)).one_or_none()

    def holder(
        self, connection: Connection, digest: str, values: Mapping[str, Any]
    ) -> Row[Any] | None:
        """Returns the instance that an idempotency key belongs to: ``id``, ``ulid``, ``same``.

        ``same`` tells whether it was started with the payload and subject in ``values``.
        """
        names = ("payload", "subject_key", "subject_type", "subject_id")
        chosen = {name: values[name] for name in names}
        return connection.execute(self._holder, {**chosen, "digest": digest}).one_or_none()

    def start_many(self, connection: Connection, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
        """Starts one instance for each of ``values["ulids"]`` and ``values["payloads"]``.

        Returns:
            Empty when no definition has the key. Otherwise a row per instance with ``status``,
            ``published``, ``id`` and ``ulid``; one row with null ids when nothing was started.
        """
        return connection.execute(self._batch, dict(values)).all()

    def start_by_events(
        self, connection: Connection, starts: Sequence[tuple[str, Any, Any]]
    ) -> int:
        """Starts an instance for each (ulid, event id, version id); returns how many.

        They belong to the event's owner and accept events after that event.
        """
        row = {
            "ulids": [ulid for ulid, _, _ in starts],
            "event_ids": [str(event) for _, event, _ in starts],
            "version_ids": [str(version) for _, _, version in starts],
        }
        return int(connection.execute(self._triggered, row).scalar_one())

    def _definition(self, digest: str = "NULL") -> str:
        names = self._names
        return f"""
moment AS MATERIALIZED ({SNAPSHOT}),
d AS MATERIALIZED (
  SELECT d.id, d.status, d.subject_key, v.id AS version_id, v.actor_mode, {digest} AS digest
  FROM {names.definitions} d LEFT JOIN {names.versions} v ON v.id = d.current_version_id
  WHERE d.key = CAST(:key AS varchar) AND d.owner_scope IN (CAST(:scope AS varchar), '*')
    AND d.deleted_at IS NULL
  ORDER BY d.owner_scope = '*' LIMIT 1)"""

    def _instances(self, payload: str, digest: str, source: str) -> str:
        """The INSERT of instances that callers start; the rest of each row is its definition's."""
        owner, subject, starter = (
            sql_type(kind)
            for kind in (
                self._choice.owner_key_type,
                self._choice.subject_key_type,
                self._choice.key_type,
            )
        )
        return f"""
  INSERT INTO {self._names.instances} (id, ulid, definition_id, version_id, owner_type, owner_id,
    subject_key, subject_type, subject_id, trigger_type, trigger_payload, idempotency_digest,
    status, root_instance_id, actor_mode, starter_type, starter_id)
  SELECT n.id, n.ulid, d.id, d.version_id, CAST(:owner_type AS varchar),
    CAST(:owner_id AS {owner}),
    CASE WHEN CAST(:subject_type AS varchar) IS NOT NULL
      THEN coalesce(CAST(:subject_key AS varchar), d.subject_key) END,
    CAST(:subject_type AS varchar), CAST(:subject_id AS {subject}),
    'manual', {payload}, {digest}, 'pending', n.id,
    coalesce(CAST(:actor_mode AS varchar), d.actor_mode),
    CAST(:starter_type AS varchar), CAST(:starter_id AS {starter})
  FROM d, n{source}
  RETURNING id, ulid"""

    def _first_rows(self) -> str:
        return f"""
b AS (
  INSERT INTO {self._names.inbox} (instance_id, kind, payload)
  SELECT i.id, 'start', jsonb_build_object('snapshot', moment.snapshot, 'after', NULL)
  FROM i, moment)"""

    def _one(self, *, keyed: bool) -> TextClause:
        draw, source = id_source(self._choice, self._names.instances)
        key, digest, held, held_key = "", "NULL", "", "NULL"
        if keyed:
            # An owner's keys are its own, also where owners share a definition.
            named = (
                "jsonb_build_array(d.owner_scope, d.key, CAST(:scope AS varchar),"
                " CAST(:raw_key AS varchar))"
            )
            digest = f"encode(sha256(convert_to({named}::text, 'UTF8')), 'hex')"
            held, held_key = ", k", "k.key"
            key = f"""
k AS (
  INSERT INTO {self._names.idempotency_keys} AS held
    (scope, key, definition_id, instance_id, expires_at)
  SELECT 'start', d.digest, d.id, n.id,
    clock_timestamp() + make_interval(secs => CAST(:ttl AS double precision))
  FROM d, n
  ON CONFLICT (scope, key) DO UPDATE SET definition_id = excluded.definition_id,
    instance_id = excluded.instance_id, expires_at = excluded.expires_at, created_at = now()
    WHERE held.expires_at <= clock_timestamp()
  RETURNING key),"""
        return text(f"""
WITH {self._definition(digest)},
n AS MATERIALIZED (
  SELECT {draw} AS id, CAST(:ulid AS varchar) AS ulid FROM d, {source}
  WHERE d.status = 'active' AND d.version_id IS NOT NULL),{key}
i AS ({self._instances("CAST(:payload AS jsonb)", held_key, held)}),
{self._first_rows()}
SELECT d.status, d.version_id IS NOT NULL AS published, d.digest, i.id FROM d
LEFT JOIN i ON true""")

    def _held(self) -> TextClause:
        names = self._names
        subject = sql_type(self._choice.subject_key_type)
        return text(f"""
SELECT i.id, i.ulid, (
    i.trigger_payload IS NOT DISTINCT FROM CAST(:payload AS jsonb)
    AND i.subject_type IS NOT DISTINCT FROM CAST(:subject_type AS varchar)
    AND i.subject_id IS NOT DISTINCT FROM CAST(:subject_id AS {subject})
    AND (CAST(:subject_key AS varchar) IS NULL
      OR i.subject_key IS NOT DISTINCT FROM CAST(:subject_key AS varchar))) AS same
FROM {names.idempotency_keys} k JOIN {names.instances} i ON i.id = k.instance_id
WHERE k.scope = 'start' AND k.key = CAST(:digest AS varchar)""")

    def _many(self) -> TextClause:
        draw, source = id_source(self._choice, self._names.instances)
        return text(f"""
WITH {self._definition()},
n AS MATERIALIZED (
  SELECT {draw} AS id, u.ulid, u.payload FROM d, {source},
    unnest(CAST(:ulids AS text[]), CAST(:payloads AS text[])) AS u(ulid, payload)
  WHERE d.status = 'active' AND d.version_id IS NOT NULL),
i AS ({self._instances("n.payload::jsonb", "NULL", "")}),
{self._first_rows()}
SELECT d.status, d.version_id IS NOT NULL AS published, i.id, i.ulid FROM d
LEFT JOIN i ON true""")

    def _by_events(self) -> TextClause:
        names = self._names
        key = id_type(self._choice)
        owner = sql_type(self._choice.owner_key_type)
        draw, source = id_source(self._choice, names.instances)
        return text(f"""
WITH n AS MATERIALIZED (
  SELECT {draw} AS id, u.* FROM {source},
    unnest(CAST(:ulids AS text[]), CAST(:event_ids AS text[]), CAST(:version_ids AS text[]))
      AS u(ulid, event_id, version_id)),
i AS (
  INSERT INTO {names.instances} (id, ulid, definition_id, version_id, owner_type, owner_id,
    trigger_type, trigger_key, trigger_payload, status, root_instance_id, actor_mode)
  SELECT n.id, n.ulid, v.definition_id, v.id,
    CASE WHEN e.owner_scope <> '*' THEN split_part(e.owner_scope, ':', 1) END,
    CASE WHEN e.owner_scope <> '*'
      THEN CAST(substr(e.owner_scope, strpos(e.owner_scope, ':') + 1) AS {owner}) END,
    'event', e.key, e.payload, 'pending', n.id, v.actor_mode
  FROM n JOIN {names.events} e ON e.id = CAST(n.event_id AS {key})
  JOIN {names.versions} v ON v.id = CAST(n.version_id AS {key})
  RETURNING id),
b AS (
  INSERT INTO {names.inbox} (instance_id, kind, payload)
  SELECT n.id, 'start', jsonb_build_object('snapshot', NULL, 'after', CAST(n.event_id AS {key}))
  FROM i JOIN n ON n.id = i.id)
SELECT count(*) FROM i""")


def as_jsonb(value: Any) -> str | None:
    """Returns canonical JSON as text for a ``jsonb`` parameter; None stays SQL's NULL."""
    return None if value is None else orjson.dumps(value).decode()


@lru_cache(maxsize=32)
def _starts(choice: SchemaChoice) -> Starts:
    return Starts(choice)
