"""Fills a database with the past: a real ended instance, copied as often as wanted.

Every column of every row is as the product wrote it; only ids, ulids and times differ. So the past
has the shape of the present, and nothing here has to know what the tables look like. The copies
are spread over the last 90 days, the oldest first, as tables grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_STEPS: Final = 20_000
"""Step rows per transaction."""

INSTANCES: Final = "workflow_instances"
STEP_RUNS: Final = "workflow_step_runs"
TABLES: Final = (INSTANCES, STEP_RUNS, "workflow_journal", "workflow_inbox")

_COLUMNS: Final = """
SELECT column_name, data_type FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = %s ORDER BY ordinal_position
"""
_PATTERN: Final = """
SELECT i.id, i.ulid, count(s.id) FROM workflow_instances i
JOIN workflow_step_runs s ON s.instance_id = i.id
WHERE i.status = 'completed' GROUP BY i.id ORDER BY i.id DESC LIMIT 1
"""
_COPY: Final = """
WITH ranked AS (
  SELECT id, row_number() OVER (ORDER BY id) - 1 AS rank FROM workflow_step_runs
  WHERE instance_id = {instance}
)
INSERT INTO {table} ({columns}) SELECT {values}
FROM generate_series({first}::bigint, {last}::bigint - 1) AS n
CROSS JOIN LATERAL (
  SELECT {first_instance} + n AS instance, {first_step} + n * {steps} AS step,
    '01H' || lpad(n::text, 8, '0') || upper(left(md5(n::text), 15)) AS ulid,
    interval '90 days' * (({copies} - n)::float8 / {copies}) AS age OFFSET 0) AS new
CROSS JOIN {table} t LEFT JOIN ranked ON ranked.id = {step}
WHERE t.{owner} = {instance} ORDER BY n, {order}
"""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The instance that is copied, how often, and where the ids of the copies begin."""

    instance: int
    ulid: str
    steps: int
    copies: int
    first_instance: int
    first_step: int


def fill(url: str, rows: int, told: Callable[[int], None]) -> None:
    """Copies the newest ended instance until ``rows`` step rows have been added.

    Args:
        url: A libpq URL of a database that holds an ended instance.
        rows: How many, rounded down to whole instances.
        told: Called after each batch with the step rows that it has added.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        pattern = _pattern(connection, rows)
        copies = [_copy(connection, table, pattern) for table in TABLES]
        batch = max(1, BATCH_STEPS // pattern.steps)
        for first in range(0, pattern.copies, batch):
            last = min(first + batch, pattern.copies)
            with connection.transaction():
                for copy in copies:
                    connection.execute(
                        copy.format(first=sql.Literal(first), last=sql.Literal(last))
                    )
            told((last - first) * pattern.steps)


def settle(url: str) -> None:
    """Vacuums and analyses the tables and writes a checkpoint, so that no round meets these.

    Not for tables of a single page: the plans that suit them are kept by open connections.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))
        connection.execute("CHECKPOINT")


def held(url: str) -> dict[str, float]:
    """The rows of each table, and ``megabytes``: all of them with their indexes."""
    found: dict[str, float] = {}
    size = 0
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            row = connection.execute(
                sql.SQL("SELECT count(*), pg_total_relation_size({}::regclass) FROM {}").format(
                    sql.Literal(table), sql.Identifier(table)
                )
            ).fetchone()
            assert row is not None
            found[table] = row[0]
            size += row[1]
    return found | {"megabytes": round(size / 1024**2, 1)}


def _pattern(connection: psycopg.Connection[Any], rows: int) -> Pattern:
    found = connection.execute(_PATTERN).fetchone()
    if found is None:
        raise BenchmarkError("there is no ended instance to copy; run a load first")
    instance, ulid, steps = found
    copies = max(1, rows // steps)
    return Pattern(
        instance=instance,
        ulid=ulid,
        steps=steps,
        copies=copies,
        first_instance=_reserve(connection, INSTANCES, copies),
        first_step=_reserve(connection, STEP_RUNS, copies * steps),
    )


def _reserve(connection: psycopg.Connection[Any], table: str, count: int) -> int:
    """Takes ids from the table's sequence and returns the first: nobody else will draw them."""
    row = connection.execute(
        "SELECT setval(s, nextval(s) + %s) - %s FROM pg_get_serial_sequence(%s, 'id') AS s",
        (count, count, table),
    ).fetchone()
    assert row is not None
    return int(row[0])


def _copy(connection: psycopg.Connection[Any], table: str, pattern: Pattern) -> sql.SQL:
    """The statement that copies the pattern's rows of one table; lacks only first and last."""
    described = dict(connection.execute(_COLUMNS, (table,)).fetchall())
    if table not in (INSTANCES, STEP_RUNS):
        described.pop("id", None)
    values = {name: _value(table, name, kind, pattern) for name, kind in described.items()}
    owner = "id" if table == INSTANCES else "instance_id"
    step = "t.id" if table == STEP_RUNS else "t.step_run_id"
    text = sql.SQL(_COPY).format(
        table=sql.Identifier(table),
        columns=sql.SQL(", ").join(map(sql.Identifier, values)),
        values=sql.SQL(", ").join(values.values()),
        owner=sql.Identifier(owner),
        step=sql.SQL(step if "step_run_id" in described or table == STEP_RUNS else "NULL"),
        order=sql.SQL("t.seq" if "seq" in described else "ranked.rank"),
        instance=sql.Literal(pattern.instance),
        steps=sql.Literal(pattern.steps),
        copies=sql.Literal(pattern.copies),
        first_instance=sql.Literal(pattern.first_instance),
        first_step=sql.Literal(pattern.first_step),
        first=sql.SQL("{first}"),
        last=sql.SQL("{last}"),
    )
    return sql.SQL(text.as_string(connection))


def _value(table: str, column: str, kind: str, pattern: Pattern) -> sql.Composable:
    if column == "instance_id" or (table == INSTANCES and column == "id"):
        return sql.SQL("new.instance")
    if column == "step_run_id" or (table == STEP_RUNS and column == "id"):
        return sql.SQL("new.step + ranked.rank")
    if column == "ulid":
        return sql.SQL("new.ulid")
    if column == "idempotency_key":
        return sql.SQL("replace(t.idempotency_key, {}, new.ulid)").format(sql.Literal(pattern.ulid))
    own = sql.SQL("t.{}").format(sql.Identifier(column))
    return sql.SQL("{} - new.age").format(own) if kind.startswith("timestamp") else own
