"""What an append writes for other instances: children that begin or are let go, news of an end.

These are further parts of the append's one statement. Each hangs on the row that the append has
moved, so a refused append starts nobody and tells nobody. All that is written for an instance that
exists already is a row in its inbox: nobody but itself changes its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from adapter.interpreter.projection import AT
from adapter.records.choice import SchemaChoice
from adapter.records.documented import OPEN_INSTANCES_WAIT
from adapter.records.drawing import SNAPSHOT, id_type

if TYPE_CHECKING:
    from adapter.interpreter.projection import Changes
    from adapter.settings import Settings

ENDED = "('completed', 'failed', 'cancelled')"
"""The statuses of an instance that has ended, as SQL."""

_PARENT = (
    "ulid",
    "depth",
    "root_instance_id",
    "owner_type",
    "owner_id",
    "starter_type",
    "starter_id",
    "status",
)


@dataclass(frozen=True, slots=True)
class Others:
    """What an append has to write for other instances; part of the shape of its statement.

    Attributes:
        starts: It starts children.
        lets_go: It cancels children that are not needed any more.
        ends: It ends the instance.
    """

    starts: bool
    lets_go: bool
    ends: bool

    @classmethod
    def of(cls, changes: Changes) -> Others:
        """What these changes call for."""
        # The status alone does not tell: a command that is refused after the end repeats it.
        ends = changes.instance.get("ended_at") is AT
        return cls(bool(changes.children), bool(changes.orphans), ends)

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return self.starts or self.lets_go or self.ends


class Children:
    """Builds these parts for one set of table names and key types."""

    def __init__(self, settings: Settings) -> None:
        self._names = settings.tables
        self._key = id_type(SchemaChoice.of(settings))

    @staticmethod
    def returning(others: Others) -> str:
        """What the append's UPDATE of the row ``t`` returns for the parts, after a comma."""
        return "".join(f", t.{column}" for column in _PARENT) if others else ""

    def parts(self, others: Others, number: int) -> list[str]:
        """The parts as common table expressions; they read ``up``, the row that was moved.

        Args:
            others: What they are needed for.
            number: The last parameter of the statement so far.
        """
        parts: list[str] = []
        if others.starts:
            parts += self._starts(number)
            number += 8
        if others.lets_go:
            parts.append(self._lets_go(number + 1, begun=others.starts))
        if others.ends:
            parts.append(self._ends())
        return parts

    @staticmethod
    def told(others: Others) -> str:
        """SQL for whether the parts have written any row."""
        parts = [
            name for name, used in (("let_go", others.lets_go), ("heard", others.ends)) if used
        ]
        return " OR ".join(
            ["true" if others.starts else "false", *(f"EXISTS (SELECT 1 FROM {n})" for n in parts)]
        )

    def arguments(self, others: Others, changes: Changes) -> list[Any]:
        """The arguments of ``parts``, in their order."""
        arguments: list[Any] = []
        if others.starts:
            rows = [
                (
                    child.id,
                    child.ulid,
                    step,
                    child.definition.id,
                    child.definition.version,
                    child.definition.actor_mode,
                    None if child.payload is None else orjson.dumps(child.payload).decode(),
                    child.idempotency,
                )
                for step, children in changes.children.items()
                for child in children
            ]
            arguments += [list(column) for column in zip(*rows, strict=True)]
        if others.lets_go:
            arguments.append(list(dict.fromkeys(changes.orphans)))
        return arguments

    def _starts(self, number: int) -> list[str]:
        """Instance, start key and start row of each child, as a caller's start writes them.

        What makes a start one of its kind is its place in the parent, so its key never expires: it
        goes with the child.
        """
        n, key = self._names, self._key
        types = (key, "varchar", key, key, key, "varchar", "jsonb", "varchar")
        arrays = ", ".join(f"${number + place}::{kind}[]" for place, kind in enumerate(types, 1))
        return [
            f"moment AS MATERIALIZED ({SNAPSHOT})",
            f"""born AS (
  INSERT INTO {n.instances} (id, ulid, definition_id, version_id, owner_type, owner_id,
    trigger_type, trigger_payload, idempotency_digest, status, depth, parent_instance_id,
    parent_step_run_id, root_instance_id, actor_mode, starter_type, starter_id,
    created_at, updated_at)
  SELECT v.id, v.ulid, v.definition_id, v.version_id, up.owner_type, up.owner_id, 'workflow',
    v.payload, encode(sha256(convert_to('child:' || up.ulid || ':' || v.place, 'UTF8')), 'hex'),
    'pending', up.depth + 1, up.id, v.step, coalesce(up.root_instance_id, up.id), v.actor_mode,
    up.starter_type, up.starter_id, up.at, up.at
  FROM up, unnest({arrays})
    AS v(id, ulid, step, definition_id, version_id, actor_mode, payload, place)
  RETURNING id, definition_id, parent_step_run_id, idempotency_digest)""",
            f"""born_keys AS (
  INSERT INTO {n.idempotency_keys} (scope, key, definition_id, instance_id)
  SELECT 'start', b.idempotency_digest, b.definition_id, b.id FROM born b)""",
            f"""born_inbox AS (
  INSERT INTO {n.inbox} (instance_id, kind, payload, sender)
  SELECT b.id, 'start', jsonb_build_object('snapshot', moment.snapshot, 'after', NULL),
    'instance:' || up.ulid FROM up, born b, moment)""",
        ]

    def _lets_go(self, number: int, *, begun: bool) -> str:
        """Tells children to cancel; one that this very statement starts is not visible yet."""
        steps = f"= ANY (${number}::{self._key}[])"
        found = (
            f"SELECT i.id FROM {self._names.instances} i WHERE i.parent_step_run_id {steps}"
            f" AND i.status NOT IN {ENDED}"
        )
        if begun:
            found += f" UNION ALL SELECT b.id FROM born b WHERE b.parent_step_run_id {steps}"
        return f"""let_go AS (
  INSERT INTO {self._names.inbox} (instance_id, kind, payload, sender)
  SELECT c.id, 'cancel', '{{"by": "parent"}}'::jsonb, 'instance:' || up.ulid
  FROM up, ({found}) c RETURNING 1)"""

    def _ends(self) -> str:
        """Tells whoever waits for the instance: its parent, or others that know its ulid."""
        return f"""heard AS (
  INSERT INTO {self._names.inbox} (instance_id, kind, payload, sender)
  SELECT DISTINCT w.instance_id, 'child',
    jsonb_build_object('ulid', up.ulid, 'status', up.status), 'instance:' || up.ulid
  FROM up CROSS JOIN LATERAL (
    SELECT instance_id FROM {self._names.waits}
    WHERE match @> jsonb_build_object('instances', jsonb_build_array(up.ulid))
      AND {OPEN_INSTANCES_WAIT} AND instance_id <> up.id OFFSET 0) w
  RETURNING 1)"""
