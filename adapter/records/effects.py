"""Claims on effects that are to happen once, and what came of them.

A row of ``workflow_idempotency_keys`` with scope ``effect``: its ``result`` is first the claim of
an attempt, ``{"claim": token, "step": step run, "node": ..., "visit": ..., "name": ...}``, and then
the same with ``value`` in place of ``claim``. So an effect without a value (None) differs from one
that has not ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from adapter.records.choice import SchemaChoice
from adapter.records.drawing import id_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapter.interpreter.state import Key
    from adapter.records.connection import Connection
    from adapter.settings import Settings


@dataclass(frozen=True, slots=True)
class Claimed:
    """What became of a try to claim.

    Attributes:
        result: What the row holds: this claim, another's, or a value.
        new: Whether the claim was made just now.
        alive: Whether the step run that has claimed it still runs under the claim's token.
    """

    result: Mapping[str, Any]
    new: bool
    alive: bool


class Effects:
    """Claims for one set of table names."""

    def __init__(self, settings: Settings) -> None:
        names = settings.tables
        self._table = names.idempotency_keys
        own = "scope = 'effect' AND key = $1"
        key = id_type(SchemaChoice.of(settings))
        self._claim = (
            f"WITH mine AS (INSERT INTO {self._table} (scope, key, instance_id, result)"
            " VALUES ('effect', $1, $2, $3::jsonb) ON CONFLICT (scope, key) DO NOTHING"
            " RETURNING result)"
            " SELECT m.result, true AS new, true AS alive FROM mine m UNION ALL"
            " SELECT k.result, false, EXISTS (SELECT 1 FROM"
            f" {names.step_runs} s WHERE s.id = (k.result ->> 'step')::{key}"
            " AND s.status = 'running' AND s.claim_token = k.result ->> 'claim')"
            f" FROM {self._table} k WHERE k.{own}"
        )
        self._swap = (
            f"UPDATE {self._table} SET result = $3::jsonb WHERE {own} AND result = $2::jsonb"
            " RETURNING 1"
        )
        self._free = f"DELETE FROM {self._table} WHERE {own} AND result = $2::jsonb"

    async def claim(
        self, connection: Connection, digest: str, instance: Key, claim: Mapping[str, Any]
    ) -> Claimed:
        """Claims an effect, or tells who has.

        Args:
            connection: Outside a transaction: the claim is committed when this returns.
            digest: 64 characters: the effect.
            instance: Whose effect it is; it goes with the instance.
            claim: JSON that names the attempt: ``claim`` (its token) and ``step`` among others.
        """
        while True:
            row = await connection.fetchrow(self._claim, digest, instance, _json(claim))
            # Neither made nor seen: it was committed while this statement ran.
            if row is not None:
                return Claimed(orjson.loads(row["result"]), row["new"], row["alive"])

    async def replace(
        self,
        connection: Connection,
        digest: str,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
    ) -> bool:
        """Puts another claim, or a value, in a claim's place; False when it is not there."""
        return bool(await connection.fetchval(self._swap, digest, _json(before), _json(after)))

    async def free(self, connection: Connection, digest: str, claim: Mapping[str, Any]) -> None:
        """Takes a claim back: its effect has not happened."""
        await connection.execute(self._free, digest, _json(claim))


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(dict(value)).decode()
