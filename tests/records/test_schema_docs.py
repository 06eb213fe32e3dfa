from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy.dialects import postgresql

from adapter.records.tables import build_tables
from adapter.settings import Settings, TableNames
from tests.records.documented_schema import DOCUMENTED
from tests.records.recipes import PAGE, VARIABLES, recipes, statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Column, Table

TABLES = build_tables(Settings())
TABLES_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
OF_OURS = {
    "INTEGER": "int",
    "SMALLINT": "smallint",
    "JSONB": "json",
    "TIMESTAMP WITH TIME ZONE": "time",
    "XID8": "xid8",
    "TEXT[]": "text[]",
    "UUID[]": "uuid[]",
    "BIGINT": "key",
}


def section(name: str) -> str:
    return PAGE.split(f"\n## `{name}`\n")[1].split("\n## ")[0]


def listed_columns(name: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    for row in re.findall(r"^\| (`.+?) \| (.+?) \| .*\|$", section(name), re.MULTILINE):
        for column in re.findall(r"`(\w+)`", row[0]):
            columns.setdefault(column, row[1])
    return columns


def in_words(column: Column[Any]) -> str:
    name = str(column.type.compile(dialect=TABLES_DIALECT)).split(" COLLATE")[0].strip()
    words = OF_OURS.get(name) or name.lower().replace("varchar", "string")
    return f"{words}, null" if column.nullable else words


def documented_words(text: str, name: str) -> str:
    kind, _, null = text.partition(" null")
    plain = {"datetime": "time", "owner": "morph", "subject": "morph", "user": "morph"}
    words = "morph" if name.endswith("_type") and "191" in kind else plain.get(kind, kind)
    return f"{words}, null" if null or text.endswith(" null") else words


@pytest.mark.parametrize("table", TableNames.model_fields)
def test_the_page_lists_every_column_in_order(table: str) -> None:
    definition: Table = getattr(TABLES, table)
    listed = [name for name in listed_columns(definition.name) if name in definition.columns]
    assert listed == definition.columns.keys()


@pytest.mark.parametrize("table", DOCUMENTED)
def test_the_page_gives_the_documented_types(table: str) -> None:
    listed = listed_columns(getattr(TABLES, table).name)
    expected = {
        name: documented_words(text, name) for name, text in DOCUMENTED[table].columns.items()
    }
    assert {name: listed[name] for name in expected} == expected


@pytest.mark.parametrize("table", sorted(set(TableNames.model_fields) - set(DOCUMENTED)))
def test_the_page_gives_the_types_of_the_other_tables(table: str) -> None:
    definition: Table = getattr(TABLES, table)
    listed = listed_columns(definition.name)
    assert {c.name: in_words(c) for c in definition.columns} == {
        name: listed[name]
        for name in definition.columns.keys()  # noqa: SIM118
    }


def test_the_page_names_every_index_that_has_a_name_of_its_own() -> None:
    for table in TABLES.metadata.tables.values():
        text = section(table.name)
        for index in table.indexes:
            name = str(index.name)
            short = name.replace(table.name, "<table>")
            by_column = "indexed" in text and re.fullmatch(r"ix_<table>_\w+", short)
            assert name in text or short in text or by_column, name


@pytest.fixture
def rows(database_url: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """One instance that went through a decision and now waits for an event."""
    graph = {"edges": [{"from": "start", "to": "check"}, {"from": "check", "to": "ask", "when": 1}]}
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        execute = connection.execute
        execute(
            "INSERT INTO workflow_definitions (id, key, name, owner_scope, status) "
            "VALUES (1, 'permits', 'Permits', '*', 'active')"
        )
        execute(
            "INSERT INTO workflow_versions (id, definition_id, number, status, schema_version, "
            "graph, trigger, settings, trigger_type, actor_mode, checksum) "
            "VALUES (1, 1, 3, 'published', 'v1', %s, '{}', '{}', 'manual', 'system', '0')",
            [json.dumps(graph)],
        )
        execute(
            "INSERT INTO workflow_instances (id, ulid, definition_id, version_id, subject_type, "
            "subject_id, trigger_type, status, current_node_id, actor_mode, lock_version) "
            "VALUES (1, %s, 1, 1, %s, %s, 'manual', 'waiting', 'ask', 'system', 3)",
            [VARIABLES["ulid"], VARIABLES["subject_type"], VARIABLES["subject_id"]],
        )
        execute(
            "INSERT INTO workflow_step_runs (id, instance_id, node_id, node_type, visit, attempt, "
            "status, idempotency_key, outcome, output, finished_at) VALUES "
            "(1, 1, 'check', 'action', 1, 1, 'succeeded', 'k', 'success', '{\"sum\": 5}', now()), "
            "(2, 1, 'ask', 'wait', 1, 1, 'waiting', 'k', NULL, NULL, NULL)"
        )
        execute(
            "INSERT INTO workflow_waits (instance_id, step_run_id, kind, event_key, match, status) "
            """VALUES (1, 2, 'event', 'permits.answered', '{"permit": 4711}', 'pending')"""
        )
        edge = {"outcome": "success", "edge": {"to": "ask", "by": "condition", "index": 1}}
        for seq, kind, node, step, data in (
            (1, "started", None, None, {}),
            (2, "step_succeeded", "check", 1, edge),
            (3, "wait_opened", "ask", 2, {}),
        ):
            execute(
                "INSERT INTO workflow_journal (instance_id, seq, kind, node_id, step_run_id, data,"
                " writer, interpreter) VALUES (1, %s, %s, %s, %s, %s, 'w', 1)",
                [seq, kind, node, step, json.dumps(data)],
            )
        execute(
            "INSERT INTO workflow_inbox (instance_id, kind, created_at) "
            "VALUES (1, 'pause', now() - interval '1 hour')"
        )
        execute("INSERT INTO workflow_workers (id, name, task_queue) VALUES ('w', 'w', 'almanac')")
        yield connection


def run(connection: psycopg.Connection[dict[str, Any]], title: str) -> list[dict[str, Any]]:
    return connection.execute(statement(title)).fetchall()


@pytest.mark.parametrize("title", recipes())
def test_every_recipe_runs(rows: psycopg.Connection[dict[str, Any]], title: str) -> None:
    run(rows, title)


def test_the_recipes_answer_their_questions(rows: psycopg.Connection[dict[str, Any]]) -> None:
    (where,) = run(rows, "Where is an instance?")
    assert (where["workflow"], where["version"], where["node"]) == ("permits", 3, "ask")
    (wait,) = run(rows, "What is it waiting for?")
    assert (wait["node"], wait["event_key"]) == ("ask", "permits.answered")
    (why,) = run(rows, "Why did it take this edge?")
    assert (why["node"], why["outcome"], why["next"]) == ("check", "success", "ask")
    assert why["why"] == "condition"
    assert why["edge"] == {"from": "check", "to": "ask", "when": 1}
    trigger, seen = run(rows, "Why did it take this edge? (2)")
    assert trigger == {"name": "trigger", "value": None}
    assert seen["name"] == "steps.check"
    assert seen["value"] == {"outcome": "success", "output": {"sum": 5}}
    assert [row["kind"] for row in run(rows, "What happened, from the beginning?")] == [
        "started",
        "step_succeeded",
        "wait_opened",
    ]
    (here,) = run(rows, "What runs for this subject?")
    assert here["ulid"] == VARIABLES["ulid"]
    assert [row["what"] for row in run(rows, "Is anything stuck?")] == ["inbox pause"]
    assert [row["name"] for row in run(rows, "Which workers live?")] == ["w"]
