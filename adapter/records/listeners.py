"""The statement that tells which published graphs an event's key means something to."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, text

from adapter.records.choice import SchemaChoice

if TYPE_CHECKING:
    from adapter.settings import Settings


def listeners_of(settings: Settings) -> ListenerRecords:
    """Returns the statement for these settings; the same object whenever the choice is."""
    return _listeners(SchemaChoice.of(settings))


class ListenerRecords:
    """The statement for one choice of names."""

    def __init__(self, choice: SchemaChoice) -> None:
        names = choice.tables
        # Publishing registers the fields that waits for a key match on, so a key that has none is
        # known without a look into any graph.
        self._count = text(f"""
WITH known AS (
  SELECT EXISTS (SELECT FROM {names.event_fields}
    WHERE event_key = CAST(:key AS varchar)) AS waits),
current AS (
  SELECT d.status, v.trigger_type, v.trigger_key, v.graph, d.owner_scope
  FROM {names.definitions} d JOIN {names.versions} v ON v.id = d.current_version_id
  WHERE d.deleted_at IS NULL)
SELECT known.waits AS ever,
  CASE WHEN known.waits THEN (
    SELECT count(*) FROM current c CROSS JOIN LATERAL jsonb_path_query(c.graph,
      '$.nodes[*] ? (@.type == "wait" && @.config.event == $key)',
      jsonb_build_object('key', CAST(:key AS text))) AS w
    WHERE CAST(:scope AS varchar) = '*' OR c.owner_scope IN ('*', CAST(:scope AS varchar)))
  ELSE 0 END AS waits,
  (SELECT count(*) FROM current c WHERE c.trigger_type = 'event' AND c.status = 'active'
    AND c.trigger_key = CAST(:key AS varchar)
    AND c.owner_scope IN ('*', CAST(:scope AS varchar))) AS triggers
FROM known""")

    def count(self, connection: Connection, *, key: str, scope: str) -> Row[Any]:
        """Returns ``waits`` and ``triggers`` of current versions, and whether any ever waited.

        Args:
            connection: Any open connection.
            key: The event's key.
            scope: The event's owner as one string.
        """
        return connection.execute(self._count, {"key": key, "scope": scope}).one()


@lru_cache(maxsize=32)
def _listeners(choice: SchemaChoice) -> ListenerRecords:
    return ListenerRecords(choice)
