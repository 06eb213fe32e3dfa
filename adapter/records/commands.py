"""The statements for commands: one that writes an inbox row, and those that read the inbox.

The check of the instance's status stands in the statement that writes, so that a command is one
round trip. It only spares callers a wait for what will be refused anyway: the instance decides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, text

from adapter.records.choice import SchemaChoice
from adapter.records.drawing import id_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.settings import Settings


def commands_of(settings: Settings) -> Commands:
    """Returns the statements for these settings; the same object whenever the choice is."""
    return _commands(SchemaChoice.of(settings))


class Commands:
    """The statements for one choice of names and key types."""

    def __init__(self, choice: SchemaChoice) -> None:
        names = choice.tables
        key = id_type(choice)
        # The lock is what the foreign key takes anyway; taken here, it finds an instance that is
        # being pruned before the INSERT fails on it.
        self._put = text(f"""
WITH i AS MATERIALIZED (
  SELECT id, status, ended_at, failure_code FROM {names.instances}
  WHERE ulid = CAST(:ulid AS varchar) FOR KEY SHARE),
b AS (
  INSERT INTO {names.inbox} (instance_id, kind, payload, sender)
  SELECT i.id, CAST(:kind AS varchar), CAST(:payload AS jsonb), CAST(:sender AS varchar) FROM i
  WHERE i.status = ANY (CAST(:fits AS text[])) OR EXISTS (
    SELECT 1 FROM {names.inbox} o WHERE o.instance_id = i.id AND o.applied_at IS NULL
      AND o.kind = ANY (CAST(:unless AS text[])))
  RETURNING id)
SELECT i.status, i.ended_at, i.failure_code, b.id FROM i LEFT JOIN b ON true""")
        of_instance = f"""b.instance_id =
  (SELECT id FROM {names.instances} WHERE ulid = CAST(:ulid AS varchar))"""
        self._result = text(f"""
SELECT b.applied_at, b.result ->> 'status' AS status, b.result ->> 'reason' AS reason,
  i.status AS instance_status, i.ended_at, i.failure_code
FROM {names.inbox} b JOIN {names.instances} i ON i.id = b.instance_id
WHERE i.ulid = CAST(:ulid AS varchar) AND b.id = CAST(:id AS {key})""")
        page = f"""
SELECT * FROM (
  SELECT b.id, b.kind, b.event_id, e.key AS event, coalesce(b.payload, e.payload)::text AS payload,
    b.sender, b.created_at, b.applied_at, b.result ->> 'status' AS status,
    b.result ->> 'reason' AS reason
  FROM {names.inbox} b LEFT JOIN {names.events} e ON e.id = b.event_id
  WHERE {of_instance} {{where}}
  ORDER BY b.id {{order}} LIMIT CAST(:most AS integer)) part
ORDER BY id"""
        before = f"AND b.id < CAST(:before AS {key})"
        unapplied = "AND b.applied_at IS NULL"
        self._pages = {
            (first, only): text(
                page.format(
                    where=f"{'' if first else before} {unapplied if only else ''}", order="DESC"
                )
            )
            for first in (True, False)
            for only in (True, False)
        }
        self._next = text(page.format(where=unapplied, order="ASC"))

    def put(
        self,
        connection: Connection,
        *,
        ulid: str,
        kind: str,
        payload: str,
        sender: str | None,
        fits: Sequence[str],
        unless: Sequence[str],
    ) -> Row[Any] | None:
        """Writes one inbox row if the instance's status allows it.

        Args:
            connection: Its transaction is joined.
            ulid: The instance.
            kind: The command.
            payload: The text of a JSON object.
            sender: Who sends it, as one string.
            fits: The statuses in which it is taken.
            unless: Kinds of rows which, not yet applied, may change the status: it is taken then,
                whatever the status is now.

        Returns:
            None when there is no such instance. Otherwise its ``status``, ``ended_at`` and
            ``failure_code``, and the row's ``id``, null when nothing was written.
        """
        row = {
            "ulid": ulid,
            "kind": kind,
            "payload": payload,
            "sender": sender,
            "fits": list(fits),
            "unless": list(unless),
        }
        return connection.execute(self._put, row).one_or_none()

    def result(self, connection: Connection, ulid: str, key: int | str) -> Row[Any] | None:
        """Returns what came of a row, and how its instance stands; None when it is not there."""
        return connection.execute(self._result, {"ulid": ulid, "id": key}).one_or_none()

    def page(
        self,
        connection: Connection,
        ulid: str,
        *,
        most: int,
        before: str | None = None,
        unapplied: bool = False,
    ) -> Sequence[Row[Any]]:
        """Returns the newest rows of an instance, those before ``before`` only, oldest first."""
        statement = self._pages[before is None, unapplied]
        values = {"ulid": ulid, "most": most} | ({} if before is None else {"before": before})
        return connection.execute(statement, values).all()

    def unapplied(self, connection: Connection, ulid: str, most: int) -> Sequence[Row[Any]]:
        """Returns the rows of an instance that are applied next, in that order."""
        return connection.execute(self._next, {"ulid": ulid, "most": most}).all()


@lru_cache(maxsize=32)
def _commands(choice: SchemaChoice) -> Commands:
    return Commands(choice)
