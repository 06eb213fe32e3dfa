"""The statements by which a definition gets its versions."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, text

from adapter.records.choice import SchemaChoice
from adapter.records.columns import sql_type
from adapter.records.drawing import id_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapter.settings import Settings


def published_of(settings: Settings) -> PublishedRecords:
    """Returns the statements for these settings; the same object whenever the choice is."""
    return _published(SchemaChoice.of(settings))


class PublishedRecords:
    """The statements for one choice of names and key types."""

    def __init__(self, choice: SchemaChoice) -> None:
        names = choice.tables
        key = id_type(choice)
        owner, user = sql_type(choice.owner_key_type), sql_type(choice.key_type)
        self._lock = text(f"""
SELECT id FROM {names.definitions}
WHERE owner_scope = CAST(:scope AS varchar) AND key = CAST(:key AS varchar)
FOR NO KEY UPDATE""")
        self._current = text(f"""
SELECT d.id, d.status, d.deleted_at, d.current_version_id, v.number, v.checksum
FROM {names.definitions} d LEFT JOIN {names.versions} v ON v.id = d.current_version_id
WHERE d.owner_scope = CAST(:scope AS varchar) AND d.key = CAST(:key AS varchar)""")
        self._define = text(f"""
INSERT INTO {names.definitions}
  (key, name, owner_type, owner_id, owner_scope, status, webhook_id)
VALUES (CAST(:key AS varchar), CAST(:name AS varchar), CAST(:owner_type AS varchar),
  CAST(:owner_id AS {owner}), CAST(:scope AS varchar), 'draft', CAST(:webhook_id AS varchar))
ON CONFLICT (owner_scope, key) DO NOTHING""")
        self._supersede = text(f"""
UPDATE {names.versions} SET status = 'superseded', updated_at = clock_timestamp()
WHERE definition_id = CAST(:definition AS {key}) AND status = 'published'""")
        self._insert = text(f"""
INSERT INTO {names.versions} (definition_id, number, status, schema_version, graph, trigger,
  settings, trigger_type, trigger_key, actor_mode, checksum, published_at, publisher_type,
  publisher_id)
SELECT CAST(:definition AS {key}), coalesce(max(number), 0) + 1, 'published',
  CAST(:schema_version AS varchar), CAST(:graph AS jsonb), CAST(:trigger AS jsonb),
  CAST(:settings AS jsonb), CAST(:trigger_type AS varchar), CAST(:trigger_key AS varchar),
  CAST(:actor_mode AS varchar), CAST(:checksum AS varchar), clock_timestamp(),
  CAST(:publisher_type AS varchar), CAST(:publisher_id AS {user})
FROM {names.versions} WHERE definition_id = CAST(:definition AS {key})
RETURNING id, number""")
        self._activate = text(f"""
UPDATE {names.definitions} SET current_version_id = CAST(:version AS {key}),
  status = CASE status WHEN 'paused' THEN 'paused' ELSE 'active' END,
  name = CAST(:name AS varchar), description = CAST(:description AS text),
  subject_key = CAST(:subject_key AS varchar),
  webhook_id = coalesce(webhook_id, CAST(:webhook_id AS varchar)),
  updated_at = clock_timestamp()
WHERE id = CAST(:definition AS {key})""")
        self._reactivate = text(f"""
UPDATE {names.definitions} SET status = 'active', updated_at = clock_timestamp()
WHERE id = CAST(:definition AS {key}) AND status = 'archived'""")
        # Until the transaction ends, so that the sets of one key become visible in epoch order.
        self._serialise = text(
            "SELECT pg_advisory_xact_lock("
            "hashtextextended('almanac event ' || CAST(:key AS text), 0))"
        )
        self._register = text(f"""
INSERT INTO {names.event_fields} (event_key, epoch, fields)
SELECT CAST(:key AS varchar), coalesce(max(epoch), 0) + 1, CAST(:fields AS text[])
FROM {names.event_fields} WHERE event_key = CAST(:key AS varchar)
HAVING coalesce(bool_and(fields <> CAST(:fields AS text[])), true)
ON CONFLICT (event_key, fields) DO NOTHING""")

    def reactivate(self, connection: Connection, definition: Any) -> None:
        """Makes a locked definition active that was archived."""
        connection.execute(self._reactivate, {"definition": definition})

    def lock(self, connection: Connection, *, scope: str, key: str) -> Row[Any] | None:
        """Locks a definition and returns it with its current version's number and checksum."""
        named = {"scope": scope, "key": key}
        if connection.execute(self._lock, named).one_or_none() is None:
            return None
        # Only a second statement sees the version that another publisher has just committed.
        return connection.execute(self._current, named).one()

    def define(self, connection: Connection, values: Mapping[str, Any]) -> None:
        """Inserts a definition as a draft, unless somebody else has just done so."""
        connection.execute(self._define, dict(values))

    def publish(self, connection: Connection, values: Mapping[str, Any]) -> Row[Any]:
        """Gives a locked definition its next version, all of it at once; returns id and number."""
        connection.execute(self._supersede, {"definition": values["definition"]})
        version = connection.execute(self._insert, dict(values)).one()
        connection.execute(self._activate, {**values, "version": version.id})
        return version

    def register_fields(
        self, connection: Connection, key: str, sets: Sequence[Sequence[str]]
    ) -> None:
        """Sees to it that events of a key carry digests for these sets of fields from now on."""
        connection.execute(self._serialise, {"key": key})
        for fields in sets:
            connection.execute(self._register, {"key": key, "fields": list(fields)})


@lru_cache(maxsize=32)
def _published(choice: SchemaChoice) -> PublishedRecords:
    return PublishedRecords(choice)
