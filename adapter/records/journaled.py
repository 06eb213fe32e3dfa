"""The statements that read what decisions were made of: an instance's journal, and outputs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Connection, Row, text

from adapter.records.choice import SchemaChoice
from adapter.records.drawing import id_type, key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from adapter.settings import Settings


def journaled_of(settings: Settings) -> Journaled:
    """Returns the statements for these settings; the same object whenever the choice is."""
    return _journaled(SchemaChoice.of(settings))


class Journaled:
    """The statements for one choice of names and key types."""

    def __init__(self, choice: SchemaChoice) -> None:
        names = choice.tables
        self._head = text(f"""
SELECT d.key, v.checksum, v.graph::text AS graph, i.trigger_payload::text AS trigger,
  CASE WHEN i.subject_type IS NOT NULL THEN jsonb_build_object('type', i.subject_type,
    'id', i.subject_id, 'key', i.subject_key)::text END AS subject
FROM {names.instances} i JOIN {names.definitions} d ON d.id = i.definition_id
JOIN {names.versions} v ON v.id = i.version_id WHERE i.ulid = CAST(:ulid AS varchar)""")
        self._entries = text(f"""
SELECT seq, kind, node_id, step_run_id, interpreter, data::text AS data FROM {names.journal}
WHERE instance_id = (SELECT id FROM {names.instances} WHERE ulid = CAST(:ulid AS varchar))
ORDER BY seq""")
        key = id_type(choice)
        self._outputs = text(
            f"SELECT id, output::text AS output FROM {names.step_runs}"
            f" WHERE id = ANY (CAST(CAST(:ids AS text[]) AS {key}[]))"
        )

    def head(self, connection: Connection, ulid: str) -> Row[Any] | None:
        """Returns the document and what expressions see of the instance itself; None for none."""
        return connection.execute(self._head, {"ulid": ulid}).one_or_none()

    def entries(self, connection: Connection, ulid: str) -> Sequence[Row[Any]]:
        """Returns the whole journal of an instance, by seq."""
        return connection.execute(self._entries, {"ulid": ulid}).all()

    def outputs(self, connection: Connection, steps: Collection[int | str]) -> dict[Any, Any]:
        """Returns the outputs of step runs by id; None where there is none."""
        rows = connection.execute(self._outputs, {"ids": [str(step) for step in steps]})
        found = {
            key_of(row.id): None if row.output is None else orjson.loads(row.output) for row in rows
        }
        return {step: found.get(step) for step in steps}


@lru_cache(maxsize=32)
def _journaled(choice: SchemaChoice) -> Journaled:
    return Journaled(choice)
