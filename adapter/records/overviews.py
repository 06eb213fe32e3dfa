"""The statements that read instances for people: one with its timeline, or a page of many."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, text

from adapter.interpreter.entries import (
    FAILED,
    LINE_ENDED,
    SCOPE_OPENED,
    STEP_PASSED,
    STEP_SCHEDULED,
    STEP_STARTED,
    WAIT_OPENED,
)
from adapter.records.choice import SchemaChoice
from adapter.records.columns import sql_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapter.settings import Settings


def overviews_of(settings: Settings) -> Overviews:
    """Returns the statements for these settings; the same object whenever the choice is."""
    return _overviews(SchemaChoice.of(settings))


_OPENINGS = (SCOPE_OPENED, STEP_PASSED, STEP_SCHEDULED, STEP_STARTED, WAIT_OPENED)
_COLUMNS = """i.ulid, i.id, d.key, v.number, i.status, i.current_node_id, i.steps_count,
  i.owner_type, i.owner_id::text AS owner_id, i.subject_key, i.subject_type,
  i.subject_id::text AS subject_id, i.failure_code, i.failure_message, i.failed_node_id,
  i.created_at, i.started_at, i.ended_at, i.updated_at"""


class Overviews:
    """The statements for one choice of names and key types."""

    def __init__(self, choice: SchemaChoice) -> None:
        names = self._names = choice.tables
        self._owner, self._subject = (
            sql_type(choice.owner_key_type),
            sql_type(choice.subject_key_type),
        )
        self._source = f"""{names.instances} i
JOIN {names.definitions} d ON d.id = i.definition_id
JOIN {names.versions} v ON v.id = i.version_id"""
        self._head = text(f"""
SELECT {_COLUMNS}, d.name, i.version_id, i.trigger_type, i.trigger_key,
  i.trigger_payload::text AS trigger_payload, i.actor_mode, i.starter_type,
  i.starter_id::text AS starter_id, v.checksum,
  (SELECT p.ulid FROM {names.instances} p WHERE p.id = i.parent_instance_id) AS parent
FROM {self._source} WHERE i.ulid = CAST(:ulid AS varchar)""")
        self._graph = text(
            f"SELECT v.graph::text FROM {names.versions} v"
            f" JOIN {names.instances} i ON i.version_id = v.id"
            " WHERE i.ulid = CAST(:ulid AS varchar)"
        )
        of_instance = (
            f"instance_id = (SELECT id FROM {names.instances} WHERE ulid = CAST(:ulid AS varchar))"
        )
        # Steps of the main line say nothing of it, so that most instances have no such entries.
        lines = f"""(
  SELECT DISTINCT ON (step_run_id) step_run_id, data ->> 'line' AS line FROM {names.journal}
  WHERE {of_instance} AND data ? 'line' AND kind = ANY ('{{{",".join(_OPENINGS)}}}')
  ORDER BY step_run_id, seq)"""
        self._steps = text(f"""
SELECT newest.*, coalesce(l.line, '') AS line, p.value::text AS progress, p.at AS progress_at FROM (
  SELECT id, node_id, node_type, visit, attempt, status, outcome, input::text AS input,
    output::text AS output, error_code, error_message, error_retryable, scheduled_for, started_at,
    finished_at, created_at
  FROM {names.step_runs} WHERE {of_instance}
  ORDER BY created_at DESC, id DESC LIMIT CAST(:most AS integer)) newest
LEFT JOIN {lines} l ON l.step_run_id = newest.id
LEFT JOIN {names.step_progress} p ON p.step_run_id = newest.id
ORDER BY created_at, id""")
        self._waits = text(f"""
SELECT newest.*, (j.data -> 'signals')::text AS signals, j.data ->> 'correlation' AS correlation,
  (j.data -> 'instances')::text AS instances
FROM (
  SELECT w.id, w.step_run_id, s.node_id, w.kind, w.due_at, w.event_key, w.match::text AS match,
    w.condition::text AS condition, w.outcome, w.status, w.fired_at, w.created_at, w.instance_id
  FROM {names.waits} w JOIN {names.step_runs} s ON s.id = w.step_run_id
  WHERE w.{of_instance}
  ORDER BY w.status = 'pending' DESC, w.created_at DESC, w.id DESC
  LIMIT CAST(:most AS integer)) newest
LEFT JOIN {names.journal} j ON newest.kind IN ('signal', 'instances')
  AND j.{of_instance} AND j.kind = '{WAIT_OPENED}'
  AND j.step_run_id = newest.step_run_id AND j.data ->> 'wait' = newest.id::text
ORDER BY created_at, id""")
        # Where no edge was taken the entry after it says what ended, and why.
        self._edges = text(f"""
SELECT newest.seq, newest.at, newest.node_id, newest.step_run_id,
  newest.data ->> 'outcome' AS outcome, (newest.data -> 'edge')::text AS edge,
  coalesce(n.data ->> 'code', newest.data ->> 'code') AS code, n.kind AS next_kind,
  coalesce(l.line, '') AS line
FROM (
  SELECT instance_id, seq, at, node_id, step_run_id, data
  FROM {names.journal} WHERE {of_instance} AND data ? 'edge'
  ORDER BY seq DESC LIMIT CAST(:most AS integer)) newest
LEFT JOIN {names.journal} n ON n.instance_id = newest.instance_id AND n.seq = newest.seq + 1
  AND newest.data -> 'edge' ->> 'to' IS NULL AND n.kind IN ('{FAILED}', '{LINE_ENDED}')
LEFT JOIN {lines} l ON l.step_run_id = newest.step_run_id
ORDER BY newest.seq""")
        listed = "WITH ORDINALITY AS n(ulid, place)"
        self._children = text(f"""
SELECT newest.*, s.node_id, p.place FROM (
  SELECT c.id, c.ulid, c.parent_step_run_id, d.key, c.status, c.created_at, c.started_at, c.ended_at
  FROM {names.instances} c JOIN {names.definitions} d ON d.id = c.definition_id
  WHERE c.parent_instance_id =
    (SELECT id FROM {names.instances} WHERE ulid = CAST(:ulid AS varchar))
  ORDER BY c.created_at DESC, c.id DESC LIMIT CAST(:most AS integer)) newest
LEFT JOIN {names.step_runs} s ON s.id = newest.parent_step_run_id
LEFT JOIN (
  SELECT DISTINCT ON (n.ulid) n.ulid, n.place - 1 AS place
  FROM {names.journal} j CROSS JOIN jsonb_array_elements_text(j.data -> 'instances') {listed}
  WHERE j.{of_instance} AND j.kind = '{WAIT_OPENED}' AND j.data ? 'children'
  UNION ALL
  SELECT n.ulid, n.place - 1
  FROM {names.step_runs} o CROSS JOIN jsonb_array_elements_text(
    CASE jsonb_typeof(o.output -> 'ulids') WHEN 'array' THEN o.output -> 'ulids' END) {listed}
  WHERE o.{of_instance} AND o.node_type = 'start_workflow') p ON p.ulid = newest.ulid
ORDER BY newest.created_at, newest.id""")
        self._stop = text(f"""
SELECT j.data ->> 'reason' AS reason, b.sender, j.at FROM {names.journal} j
LEFT JOIN {names.inbox} b
  ON b.instance_id = j.instance_id AND b.id::text = j.data ->> 'inbox'
WHERE j.{of_instance} AND j.kind = CAST(:kind AS varchar)
ORDER BY j.seq DESC LIMIT 1""")
        self._status = text(
            f"SELECT status FROM {names.instances} WHERE ulid = CAST(:ulid AS varchar)"
        )

    def status(self, connection: Connection, ulid: str) -> str | None:
        """Returns an instance's status, None when there is no such instance."""
        found: str | None = connection.execute(self._status, {"ulid": ulid}).scalar_one_or_none()
        return found

    def head(self, connection: Connection, ulid: str) -> Row[Any] | None:
        """Returns an instance's row with what names its definition and version."""
        return connection.execute(self._head, {"ulid": ulid}).one_or_none()

    def graph(self, connection: Connection, ulid: str) -> str:
        """Returns the text of the document that an instance runs."""
        return str(connection.execute(self._graph, {"ulid": ulid}).scalar_one())

    def steps(self, connection: Connection, ulid: str, most: int) -> Sequence[Row[Any]]:
        """Returns the newest step runs in the order in which they were opened."""
        return connection.execute(self._steps, {"ulid": ulid, "most": most}).all()

    def waits(self, connection: Connection, ulid: str, most: int) -> Sequence[Row[Any]]:
        """Returns the waits, open ones in any case, in the order in which they were opened."""
        return connection.execute(self._waits, {"ulid": ulid, "most": most}).all()

    def edges(self, connection: Connection, ulid: str, most: int) -> Sequence[Row[Any]]:
        """Returns the newest journal entries that chose an edge, by seq."""
        return connection.execute(self._edges, {"ulid": ulid, "most": most}).all()

    def children(self, connection: Connection, ulid: str, most: int) -> Sequence[Row[Any]]:
        """Returns the newest instances that an instance has started, in that order."""
        return connection.execute(self._children, {"ulid": ulid, "most": most}).all()

    def stop(self, connection: Connection, ulid: str, kind: str) -> Row[Any] | None:
        """Returns what has paused or cancelled an instance: the latest entry of that kind."""
        return connection.execute(self._stop, {"ulid": ulid, "kind": kind}).one_or_none()

    def page(
        self, connection: Connection, filters: Mapping[str, Any], most: int
    ) -> Sequence[Row[Any]]:
        """Returns up to ``most`` instances, newest first, that fit all filters given.

        Args:
            connection: Any open connection.
            filters: ``key``, ``status``, ``since`` (a datetime), ``before`` (a ulid), and the
                pairs ``owner_type``, ``owner_id``, ``subject_type``, ``subject_id``; ``parent`` (a
                ulid: what it has started), ``top`` (True: what none has started). None or absent
                does not filter.
            most: How many.
        """
        chosen = {name: value for name, value in filters.items() if value is not None}
        tests = {
            "key": "d.key = CAST(:key AS varchar)",
            "status": "i.status = CAST(:status AS varchar)",
            "since": "i.created_at >= CAST(:since AS timestamptz)",
            "before": "i.ulid < CAST(:before AS varchar)",
            "parent": f"i.parent_instance_id = (SELECT p.id FROM {self._names.instances} p"
            " WHERE p.ulid = CAST(:parent AS varchar))",
            "top": "i.depth = 0 AND CAST(:top AS boolean)",
            "owner_type": "i.owner_type = CAST(:owner_type AS varchar)",
            "owner_id": f"i.owner_id = CAST(:owner_id AS {self._owner})",
            "subject_type": "i.subject_type = CAST(:subject_type AS varchar)",
            "subject_id": f"i.subject_id = CAST(:subject_id AS {self._subject})",
        }
        where = " AND ".join(tests[name] for name in sorted(chosen)) or "true"
        query = (
            f"SELECT {_COLUMNS} FROM {self._source} WHERE {where}"
            " ORDER BY i.ulid DESC LIMIT CAST(:most AS integer)"
        )
        return connection.execute(text(query), {**chosen, "most": most}).all()


@lru_cache(maxsize=32)
def _overviews(choice: SchemaChoice) -> Overviews:
    return Overviews(choice)
