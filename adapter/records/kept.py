"""The statements that read what an instance keeps: signals that no wait has taken, and effects."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, text

from adapter.interpreter.entries import SIGNAL_RECEIVED, WAIT_ADVANCED, WAIT_FIRED, WAIT_OPENED
from adapter.records.choice import SchemaChoice
from adapter.records.drawing import id_type, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.settings import Settings


def kept_of(settings: Settings) -> Kept:
    """Returns the statements for these settings; the same object whenever the choice is."""
    return _kept(SchemaChoice.of(settings))


class Kept:
    """The statements for one choice of names and key types."""

    def __init__(self, choice: SchemaChoice) -> None:
        names = choice.tables
        key = id_type(choice)
        own = f"(SELECT id FROM {names.instances} WHERE ulid = CAST(:ulid AS varchar))"
        untaken = f"""
  SELECT data -> 'inbox' AS inbox FROM {names.journal}
  WHERE instance_id = {own} AND kind = '{SIGNAL_RECEIVED}'
  EXCEPT
  SELECT data -> 'signal' FROM {names.journal}
  WHERE instance_id = {own} AND kind IN ('{WAIT_FIRED}', '{WAIT_ADVANCED}') AND data ? 'signal'"""
        self._signals = text(f"""
SELECT b.id, b.payload ->> 'name' AS name, (b.payload -> 'payload')::text AS payload,
  b.payload ->> 'correlation' AS correlation, b.sender, b.created_at
FROM ({untaken}) u JOIN {names.inbox} b ON b.id = (u.inbox #>> '{{}}')::{key}
WHERE b.instance_id = {own}
ORDER BY b.id LIMIT CAST(:most AS integer)""")
        self._is_kept = text(f"""
SELECT EXISTS (SELECT 1 FROM ({untaken}) u
  WHERE (u.inbox #>> '{{}}')::{key} = CAST(:id AS {key}))""")
        self._ids = text(f"SELECT (u.inbox #>> '{{}}')::{key} FROM ({untaken}) u")
        self._awaited = text(f"""
SELECT DISTINCT n.name FROM {names.waits} w
JOIN {names.journal} j ON j.instance_id = w.instance_id AND j.kind = '{WAIT_OPENED}'
  AND j.step_run_id = w.step_run_id AND j.data ->> 'wait' = w.id::text
CROSS JOIN LATERAL jsonb_array_elements_text(j.data -> 'signals') AS n(name)
WHERE w.instance_id = {own} AND w.kind = 'signal' AND w.status = 'pending'
  AND NOT EXISTS (SELECT 1 FROM {names.journal} a
    WHERE a.instance_id = w.instance_id AND a.kind = '{WAIT_ADVANCED}'
      AND a.data ->> 'wait' = w.id::text AND a.data ->> 'name' = n.name)
ORDER BY n.name""")
        self._effects = text(f"""
SELECT newest.key, (newest.result ->> 'step')::{key} AS step, newest.result ->> 'node' AS node,
  newest.result ->> 'visit' AS visit, newest.result ->> 'name' AS name,
  newest.result ? 'value' AS done,
  (newest.result -> 'value')::text AS value, newest.created_at,
  coalesce(s.status = 'running' AND s.claim_token = newest.result ->> 'claim', false) AS alive
FROM (
  SELECT id, key, result, created_at FROM {names.idempotency_keys}
  WHERE instance_id = {own} AND scope = 'effect'
  ORDER BY created_at DESC, id DESC LIMIT CAST(:most AS integer)) newest
LEFT JOIN {names.step_runs} s ON s.id = (newest.result ->> 'step')::{key}
ORDER BY newest.created_at, newest.id""")

    def signals(self, connection: Connection, ulid: str, most: int) -> Sequence[Row[Any]]:
        """Returns the signals of an instance that no wait has taken, those that are taken next."""
        return connection.execute(self._signals, {"ulid": ulid, "most": most}).all()

    def is_kept(self, connection: Connection, ulid: str, key: int | str) -> bool:
        """Returns whether a signal has come to an instance and no wait has taken it."""
        return bool(connection.execute(self._is_kept, {"ulid": ulid, "id": key}).scalar_one())

    def ids(self, connection: Connection, ulid: str) -> frozenset[int | str]:
        """Returns the inbox rows of the signals of an instance that no wait has taken."""
        found = connection.execute(self._ids, {"ulid": ulid}).scalars()
        return frozenset(key_of(one) for one in found)

    def awaited(self, connection: Connection, ulid: str) -> Sequence[str]:
        """Returns the names of the signals for which an instance has open waits, sorted."""
        return connection.execute(self._awaited, {"ulid": ulid}).scalars().all()

    def effects(self, connection: Connection, ulid: str, most: int) -> Sequence[Row[Any]]:
        """Returns the newest claims on effects that are to happen once, and what came of them."""
        return connection.execute(self._effects, {"ulid": ulid, "most": most}).all()


@lru_cache(maxsize=32)
def _kept(choice: SchemaChoice) -> Kept:
    return Kept(choice)
