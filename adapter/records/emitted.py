"""The statements that write events, each with the digests by which waits find it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from adapter.records.choice import SchemaChoice
from adapter.records.digests import digests_of
from adapter.records.drawing import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.settings import Settings


def emitted_of(settings: Settings) -> Emitted:
    """Returns the statements for these settings; the same object whenever the choice is."""
    return _emitted(SchemaChoice.of(settings))


class Emitted:
    """The statements for one choice of names and key types."""

    def __init__(self, choice: SchemaChoice) -> None:
        names = choice.tables
        head = f"INSERT INTO {names.events} (key, owner_scope, payload, digests, epoch, expires_at)"
        until = "clock_timestamp() + make_interval(secs => CAST(:keep AS double precision))"
        digests = digests_of(names.event_fields, key="e.key", payload="e.payload")
        self._one = text(f"""
{head}
SELECT e.key, e.scope, e.payload, f.digests, f.epoch, {until}
FROM (SELECT CAST(:key AS varchar) AS key, CAST(:scope AS varchar) AS scope,
  CAST(:payload AS jsonb) AS payload OFFSET 0) AS e
CROSS JOIN LATERAL ({digests}) AS f
RETURNING id""")
        self._many = text(f"""
{head}
SELECT e.key, CAST(:scope AS varchar), e.payload, f.digests, f.epoch, {until}
FROM (SELECT u.key::varchar AS key, u.payload::jsonb AS payload, u.n
  FROM unnest(CAST(:keys AS text[]), CAST(:payloads AS text[])) WITH ORDINALITY
    AS u(key, payload, n) OFFSET 0) AS e
CROSS JOIN LATERAL ({digests}) AS f
ORDER BY e.n
RETURNING id""")

    def emit(
        self, connection: Connection, *, key: str, scope: str, payload: str, keep: float
    ) -> int | str:
        """Writes one event and returns its id.

        Args:
            connection: Its transaction is joined.
            key: The event's key.
            scope: The owner as one string; ``*`` reaches everybody.
            payload: The text of a JSON object.
            keep: Seconds until the event expires.
        """
        values = {"key": key, "scope": scope, "payload": payload, "keep": keep}
        return key_of(connection.execute(self._one, values).scalar_one())

    def emit_many(
        self,
        connection: Connection,
        *,
        keys: Sequence[str],
        scope: str,
        payloads: Sequence[str],
        keep: float,
    ) -> list[int | str]:
        """Writes events, ids growing in the order given, and returns the ids in that order."""
        values = {"keys": list(keys), "scope": scope, "payloads": list(payloads), "keep": keep}
        return [key_of(row[0]) for row in connection.execute(self._many, values)]


@lru_cache(maxsize=32)
def _emitted(choice: SchemaChoice) -> Emitted:
    return Emitted(choice)
