"""The append: the only statement that writes instances, step runs, waits and journal.

One data-modifying statement per append, one round trip, one commit. Its only condition is the
instance's ``lock_version``; every other part hangs on the row that the condition returned, so a
writer that is not up to date changes nothing at all. The text of the statement depends only on its
shape (which columns of how many rows), so that PostgreSQL and asyncpg prepare each shape once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson

from adapter.errors import AlmanacError
from adapter.interpreter.projection import AT, Changes, Row
from adapter.interpreter.version import CURRENT
from adapter.records.children import Children, Others

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from adapter.interpreter.entries import Entry
    from adapter.interpreter.state import Key
    from adapter.records.connection import Appending, Connection
    from adapter.settings import Settings

_INLINE_ROWS = 4
"""Up to this many rows are written out as scalars; more go as arrays, one shape for all counts."""

_TYPES = {
    "attempt": "smallint",
    "claim_token": "varchar",
    "claimed_at": "timestamptz",
    "condition": "jsonb",
    "current_node_id": "varchar",
    "data": "jsonb",
    "due_at": "timestamptz",
    "ended_at": "timestamptz",
    "error_code": "varchar",
    "error_message": "text",
    "error_retryable": "boolean",
    "event_key": "varchar",
    "failed_node_id": "varchar",
    "failure_code": "varchar",
    "failure_message": "text",
    "id": "key",
    "idempotency_key": "varchar",
    "lease_until": "timestamptz",
    "input": "jsonb",
    "kind": "varchar",
    "match": "jsonb",
    "node_id": "varchar",
    "node_type": "varchar",
    "outcome": "varchar",
    "output": "jsonb",
    "payload": "jsonb",
    "result": "jsonb",
    "resume_signal": "jsonb",
    "scheduled_for": "timestamptz",
    "seq": "integer",
    "status": "varchar",
    "step_run_id": "key",
    "steps_count": "integer",
    "visit": "integer",
}
_KEY_TYPES = {"bigint": "bigint", "uuid": "uuid", "ulid": "bpchar"}


class RowMissing(AlmanacError):
    """An append names a row that is not there: the record was changed by another hand."""

    code = "row_missing"


@dataclass(frozen=True, slots=True)
class Appended:
    """An append that was taken.

    Attributes:
        at: The time it was stamped with, by the database's clock.
        more: Whether unapplied inbox rows exist that it did not stamp.
        told: Whether it has told other instances something, which a relay should see at once.
    """

    at: datetime
    more: bool
    told: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows of one table that get the same columns."""

    table: str
    new: bool
    columns: tuple[str, ...]
    stamped: tuple[str, ...]
    rows: list[list[Any]]

    @property
    def count(self) -> int:
        return len(self.rows) if len(self.rows) <= _INLINE_ROWS else 0


class Appender:
    """Builds and runs appends for one set of table names and key types."""

    def __init__(self, settings: Settings) -> None:
        self._names = settings.tables
        self._key = _KEY_TYPES[settings.primary_key_type]
        self._children = Children(settings)
        self._texts: dict[Any, str] = {}

    async def append(
        self,
        connection: Connection | Appending,
        *,
        instance: Key,
        expected_seq: int,
        entries: Sequence[Entry],
        changes: Changes,
        writer: str,
    ) -> Appended | None:
        """Writes the entries and what they change, or nothing.

        Args:
            connection: Outside a transaction: the statement is its own commit. Or room in a
                handler's transaction, then it stamps no inbox rows and the commit comes after it.
            instance: The instance's id.
            expected_seq: The ``lock_version`` that the entries were decided on.
            entries: At least one.
            changes: The net change of every row (``adapter.interpreter.projection``).
            writer: The token of the turn, kept in the journal.

        Returns:
            None when the instance is not at ``expected_seq`` and the entry after it is another
            writer's. A writer that finds its own entry there was taken before its connection broke.

        Raises:
            RowMissing: An inbox row to be stamped is not there or was applied before.
            asyncpg.PostgresError, OSError: The server refused or the connection broke.
        """
        text, arguments = self._statement(instance, expected_seq, entries, changes, writer)
        try:
            row = await connection.fetchrow(text, *arguments)
        except asyncpg.InvalidTextRepresentationError as error:
            if "inbox rows" in str(error):
                raise RowMissing(f"instance {instance}: {error}; doctor can tell more") from error
            raise
        if row is None:
            return await self._own(connection, instance, expected_seq, entries, writer)
        return Appended(row["at"], row["more"], row["told"])

    async def _own(
        self,
        connection: Connection | Appending,
        instance: Key,
        expected_seq: int,
        entries: Sequence[Entry],
        writer: str,
    ) -> Appended | None:
        row = await connection.fetchrow(
            f"SELECT j.writer, j.at, j.kind, i.lock_version,"
            f" EXISTS (SELECT 1 FROM {self._names.inbox} b WHERE b.instance_id = i.id"
            f" AND b.applied_at IS NULL) AS more"
            f" FROM {self._names.instances} i JOIN {self._names.journal} j"
            f" ON j.instance_id = i.id AND j.seq = $2 WHERE i.id = $1",
            instance,
            expected_seq + 1,
        )
        if row is None or row["writer"] != writer or row["kind"] != entries[0].kind:
            return None
        if row["lock_version"] != expected_seq + len(entries):
            return None
        return Appended(row["at"], row["more"], told=True)

    def _statement(
        self,
        instance: Key,
        expected_seq: int,
        entries: Sequence[Entry],
        changes: Changes,
        writer: str,
    ) -> tuple[str, list[Any]]:
        set_columns, set_stamped, set_values = _split(changes.instance)
        groups = [
            *_grouped(self._names.step_runs, changes.steps),
            *_grouped(self._names.waits, changes.waits),
        ]
        journal = [
            [expected_seq + n, e.kind, e.step, e.node, orjson.dumps(dict(e.data)).decode()]
            for n, e in enumerate(entries, start=1)
        ]
        groups.append(
            _Group(
                self._names.journal,
                True,
                ("seq", "kind", "step_run_id", "node_id", "data"),
                (),
                journal,
            )
        )
        if changes.inbox:
            stamps = [[key, orjson.dumps(result).decode()] for key, result in changes.inbox.items()]
            groups.append(
                _Group(self._names.inbox, False, ("id", "result"), ("applied_at",), stamps)
            )
        others = Others.of(changes)
        shape = (
            others,
            set_columns,
            set_stamped,
            tuple((g.table, g.new, g.columns, g.stamped, g.count) for g in groups),
        )
        text = self._texts.get(shape)
        if text is None:
            text = self._texts[shape] = self._text(set_columns, set_stamped, groups, others)
        arguments: list[Any] = [
            instance,
            expected_seq,
            expected_seq + len(entries),
            writer,
            list(changes.inbox),
            *set_values,
        ]
        for group in groups:
            if group.count:
                for values in group.rows:
                    arguments += values
            else:
                arguments += [list(column) for column in zip(*group.rows, strict=True)]
        return text, arguments + self._children.arguments(others, changes)

    def _text(
        self,
        set_columns: tuple[str, ...],
        set_stamped: tuple[str, ...],
        groups: list[_Group],
        others: Others,
    ) -> str:
        number = 5
        at = "greatest(clock.now, t.updated_at + interval '1 microsecond')"
        sets = ["lock_version = $3", f"updated_at = {at}"]
        for column in set_columns:
            number += 1
            sets.append(f"{column} = ${number}")
        sets += [f"{column} = {at}" for column in set_stamped]
        # The clock is read once, so that all times of one append are equal. OFFSET keeps the
        # planner from copying the call into every place that names it.
        parts = [
            f"up AS (UPDATE {self._names.instances} t SET {', '.join(sets)}"
            " FROM (SELECT clock_timestamp() AS now OFFSET 0) clock"
            " WHERE t.id = $1 AND t.lock_version = $2 RETURNING t.id, t.updated_at AS at"
            f"{self._children.returning(others)})"
        ]
        check = "0"
        for index, group in enumerate(groups):
            source, number = self._source(group, number)
            parts.append(f"g{index} AS ({self._group(group, source)})")
            if group.table == self._names.inbox:
                check = (
                    f"(SELECT CASE WHEN count(*) = cardinality($5::{self._key}[]) THEN 0 ELSE"
                    f" (count(*) || ' of the inbox rows to stamp are there')::integer END"
                    f" FROM g{index})"
                )
        parts += self._children.parts(others, number)
        more = (
            f"EXISTS (SELECT 1 FROM {self._names.inbox} b WHERE b.instance_id = $1"
            f" AND b.applied_at IS NULL AND b.id <> ALL ($5::{self._key}[]))"
        )
        # $4 is named here so that every shape has the same first five arguments.
        tail = (
            f"SELECT up.at, {more} AS more, {check} AS checked, $4::varchar AS writer,"
            f" {self._children.told(others)} AS told FROM up"
        )
        return f"WITH {', '.join(parts)} {tail}"

    def _source(self, group: _Group, number: int) -> tuple[str, int]:
        types = [self._type(column) for column in group.columns]
        names = ", ".join(f"{column}" for column in group.columns)
        if not group.count:
            arrays = [f"${number + n}::{t}[]" for n, t in enumerate(types, start=1)]
            return f"unnest({', '.join(arrays)}) AS v({names})", number + len(types)
        rows = []
        for _ in range(group.count):
            cells = [f"${number + n}::{t}" for n, t in enumerate(types, start=1)]
            rows.append(f"({', '.join(cells)})")
            number += len(types)
        return f"(VALUES {', '.join(rows)}) AS v({names})", number

    def _group(self, group: _Group, source: str) -> str:
        if group.table == self._names.journal:
            return (
                f"INSERT INTO {group.table} (instance_id, seq, kind, step_run_id, node_id, data,"
                f" writer, interpreter, at) SELECT up.id, v.seq, v.kind, v.step_run_id, v.node_id,"
                f" v.data, $4::varchar, {CURRENT}, up.at FROM up, {source}"
            )
        if group.table == self._names.inbox:
            return (
                f"UPDATE {group.table} t SET applied_at = up.at, result = v.result"
                f" FROM up, {source} WHERE t.id = v.id AND t.instance_id = up.id"
                f" AND t.applied_at IS NULL RETURNING 1"
            )
        if group.new:
            own = ["instance_id", "created_at", "updated_at", *group.stamped]
            values = ["up.id", "up.at", "up.at", *("up.at" for _ in group.stamped)]
            columns = ", ".join([*group.columns, *own])
            selected = ", ".join([*(f"v.{c}" for c in group.columns), *values])
            return f"INSERT INTO {group.table} ({columns}) SELECT {selected} FROM up, {source}"
        sets = [f"{c} = v.{c}" for c in group.columns if c != "id"]
        sets += [f"{c} = up.at" for c in ("updated_at", *group.stamped)]
        return f"UPDATE {group.table} t SET {', '.join(sets)} FROM up, {source} WHERE t.id = v.id"

    def _type(self, column: str) -> str:
        kind = _TYPES[column]
        return self._key if kind == "key" else kind


def _grouped(table: str, rows: dict[Key, Row]) -> list[_Group]:
    groups: dict[Any, _Group] = {}
    for key, row in rows.items():
        columns, stamped, values = _split(row.columns)
        shape = (row.new, columns, stamped)
        group = groups.get(shape)
        if group is None:
            group = groups[shape] = _Group(table, row.new, ("id", *columns), stamped, [])
        group.rows.append([key, *values])
    return list(groups.values())


def _split(columns: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...], list[Any]]:
    """Columns with values, columns that take the append's time, and the values encoded."""
    named: list[str] = []
    stamped: list[str] = []
    values: list[Any] = []
    for column, value in columns.items():
        if value is AT:
            stamped.append(column)
            continue
        named.append(column)
        if value is not None and _TYPES[column] == "jsonb":
            value = orjson.dumps(value).decode()
        values.append(value)
    return tuple(named), tuple(stamped), values
