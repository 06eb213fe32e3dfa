"""What is read of other instances: how they ended, what came of them, what would be started.

An instance reads others from their rows, at any time and as often as it likes; what their ends
write into its inbox only says when to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from adapter.interpreter import state
from adapter.interpreter.children import Definition, Ended
from adapter.records.children import ENDED
from adapter.records.documented import OPEN_INSTANCES_WAIT
from adapter.records.drawing import key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from adapter.records.connection import Connection
    from adapter.settings import Settings, TableNames


def output_of(names: TableNames, instance: str) -> str:
    """SQL for the output of an instance: its latest ``end``'s, null when it reached none.

    Args:
        names: The tables.
        instance: SQL for the instance's id.
    """
    return (
        f"(SELECT o.output FROM {names.step_runs} o WHERE o.instance_id = {instance}"
        " AND o.node_type = 'end' AND o.status = 'succeeded' ORDER BY o.id DESC LIMIT 1)"
    )


def unheard(names: TableNames, seconds: int = 10) -> str:
    """SQL for the ids of instances that wait for one that has ended, and have not noted it.

    Who ends tells the waits that it can see, and who opens a wait looks once it is committed. An
    end that begins before the wait is committed and is committed after the look passes both by;
    this finds it.

    Args:
        names: The tables.
        seconds: What both are left to be noted in the usual way.
    """
    settled = f"clock_timestamp() - interval '{seconds} seconds'"
    ended = f"""
    SELECT n.ulid FROM jsonb_array_elements_text(w.match -> 'instances') AS n(ulid)
    LEFT JOIN LATERAL (SELECT status, ended_at FROM {names.instances}
      WHERE ulid = n.ulid::bpchar OFFSET 0) e ON true
    WHERE e.status IS NULL OR (e.status IN {ENDED} AND e.ended_at < {settled})"""
    return f"""
  SELECT w.instance_id FROM {names.waits} w
  WHERE w.match @> '{{}}' AND {OPEN_INSTANCES_WAIT} AND w.created_at < {settled}
    AND EXISTS ({ended}) AND EXISTS ({ended}
    EXCEPT SELECT j.data ->> 'child' FROM {names.journal} j
    WHERE j.instance_id = w.instance_id AND j.kind = 'wait_advanced')"""


class Awaited:
    """Reads other instances and definitions, for one set of table names.

    Instances of another owner are as if they were not there; the application's own instances see
    all, and all see those.
    """

    def __init__(self, settings: Settings) -> None:
        n = settings.tables
        seen = (
            "i.ulid = ANY ($1::bpchar[]) AND ($2::varchar = '*' OR"
            " coalesce(i.owner_type || ':' || i.owner_id::text, '*') IN ('*', $2::varchar))"
        )
        self._statuses = (
            f"SELECT i.ulid, i.status, i.failure_code FROM {n.instances} i WHERE {seen}"
        )
        # The outputs' order is that of the instances' ids, so that the same ones are left out
        # whenever this is asked. What is left out never leaves the server.
        self._outputs = f"""
SELECT ulid, status, failure_code, size, CASE WHEN running <= $3 THEN output END AS output,
  running <= $3 AS whole
FROM (
  SELECT found.*, coalesce(octet_length(output::text), 0) AS size,
    coalesce(sum(octet_length(output::text)) OVER (ORDER BY id), 0) AS running
  FROM (
    SELECT i.id, i.ulid, i.status, i.failure_code, {output_of(n, "i.id")} AS output
    FROM {n.instances} i WHERE {seen} OFFSET 0) found) summed"""
        self._definition = f"""
SELECT k.key, d.id, d.status, v.id AS version, v.actor_mode
FROM unnest($1::varchar[]) AS k(key)
JOIN LATERAL (
  SELECT id, status, current_version_id FROM {n.definitions}
  WHERE key = k.key AND owner_scope IN ($2::varchar, '*') AND deleted_at IS NULL
  ORDER BY owner_scope = '*' LIMIT 1) d ON true
JOIN {n.versions} v ON v.id = d.current_version_id
WHERE d.status = 'active'"""

    async def ended(
        self, connection: Connection, ulids: Collection[str], owner_scope: str
    ) -> dict[str, Ended]:
        """Those of the instances that have ended, or that do not exist, without their outputs.

        Args:
            connection: Outside a transaction; for a wait that is new the statement must begin
                after the wait's commit.
            ulids: The instances.
            owner_scope: Who asks.
        """
        rows = await connection.fetch(self._statuses, list(ulids), owner_scope)
        known = {row["ulid"]: row for row in rows}
        found: dict[str, Ended] = {}
        for ulid in ulids:
            row = known.get(ulid)
            if row is None:
                found[ulid] = Ended(ulid, "unknown")
            elif row["status"] in state.ENDED:
                found[ulid] = Ended(ulid, row["status"], code=row["failure_code"])
        return found

    async def outputs(
        self, connection: Connection, noted: Iterable[Ended], owner_scope: str, limit: int
    ) -> dict[str, Ended]:
        """The same instances with their outputs, as far as these are within a limit together.

        Args:
            connection: Any.
            noted: How they ended, as far as whoever asks has noted it; that stays, also where an
                instance has been taken up again since.
            owner_scope: Who asks.
            limit: Bytes. Outputs beyond it are null, and each of those alone counts as larger.
        """
        asked = {ended.ulid: ended for ended in noted}
        # The server's text is longer than canonical JSON, by its spaces and by how it writes large
        # numbers; within twice the limit sizes are measured here.
        rows = await connection.fetch(self._outputs, list(asked), owner_scope, 2 * limit)
        found = {ulid: Ended(ulid, e.status, read=True, code=e.code) for ulid, e in asked.items()}
        for row in rows:
            ulid = row["ulid"]
            output = None if row["output"] is None else orjson.loads(row["output"])
            size = 0 if output is None else len(orjson.dumps(output))
            if not row["whole"]:
                size = max(row["size"], limit + 1) if row["size"] else 0
            code = row["failure_code"]
            found[ulid] = Ended(ulid, asked[ulid].status, output, size, read=True, code=code)
        return found

    async def definitions(
        self, connection: Connection, keys: Collection[str], owner_scope: str
    ) -> dict[str, Definition | None]:
        """What an owner's instances start by these keys; None where nothing can be started.

        The owner's own definition hides the application-wide one, also while it is not active.
        """
        found: dict[str, Definition | None] = dict.fromkeys(keys)
        for row in await connection.fetch(self._definition, list(keys), owner_scope):
            found[row["key"]] = Definition(
                key_of(row["id"]), key_of(row["version"]), row["actor_mode"]
            )
        return found
