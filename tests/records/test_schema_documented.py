from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import pytest

from adapter.records.migrating import VERSION_TABLE, upgrade
from adapter.settings import MorphKeyType, PrimaryKeyType, Settings, TableNames
from tests.records.catalog import CatalogTable, read_table, table_names
from tests.records.databases import fresh_database
from tests.records.documented_schema import DOCUMENTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from temporal_workflows.dev.stack import Stack

PLAIN_TYPES = {
    "text": "text",
    "bool": "boolean",
    "json": "jsonb",
    "datetime": "timestamp with time zone",
    "unsigned int": "integer",
    "unsigned smallint": "smallint",
}
KEY_TYPES = {
    "bigint": "bigint",
    "uuid": "uuid",
    "ulid": "character(26)",
    "string": "character varying(191)",
}
OTHER_NAMES = TableNames(
    definitions="acme_flows",
    versions="acme_flow_versions",
    instances="acme_cases",
    step_runs="acme_attempts",
    waits="acme_waits",
    escalations="acme_reminders",
    idempotency_keys="acme_keys",
    dry_runs="acme_rehearsals",
    journal="acme_decisions",
    inbox="acme_commands",
    events="acme_facts",
    event_fields="acme_fact_fields",
    workers="acme_processes",
    step_progress="acme_progress",
)
# As long as the settings allow: names that derive from them must not be cut, or they would clash.
LONG_NAMES = TableNames(**{name: f"{name}_{'x' * 40}"[:41] for name in TableNames.model_fields})

CHOICES = {
    "bigint": Settings(),
    "uuid": Settings(primary_key_type="uuid", tables=OTHER_NAMES),
    "ulid": Settings(primary_key_type="ulid", key_type="uuid"),
    "long names": Settings(tables=LONG_NAMES),
    "morphs uuid": Settings(owner_key_type="uuid", subject_key_type="string", key_type="ulid"),
    "morphs string": Settings(owner_key_type="string", subject_key_type="ulid", key_type="string"),
    "morphs ulid": Settings(owner_key_type="ulid", subject_key_type="uuid", key_type="bigint"),
}


@dataclass(frozen=True)
class Migrated:
    url: str
    settings: Settings

    def name(self, table: str) -> str:
        name: str = getattr(self.settings.tables, table)
        return name

    def read(self, table: str) -> CatalogTable:
        return read_table(self.url, self.name(table))


@pytest.fixture(scope="module", params=CHOICES)
def migrated(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Migrated]:
    settings = CHOICES[request.param]
    with fresh_database(stack) as url:
        upgrade(url, settings)
        yield Migrated(url, settings)


def sql_type(documented: str, settings: Settings) -> str:
    kinds = {
        "key": settings.primary_key_type,
        "owner": settings.owner_key_type,
        "subject": settings.subject_key_type,
        "user": settings.key_type,
    }
    if documented in kinds:
        return KEY_TYPES[kinds[documented]]
    if found := re.fullmatch(r"(string|char)\((\d+)\)", documented):
        return f"{'character varying' if found[1] == 'string' else 'character'}({found[2]})"
    return PLAIN_TYPES[documented]


def test_a_migration_creates_the_named_tables_and_no_others(migrated: Migrated) -> None:
    names = set(migrated.settings.tables.model_dump().values())
    assert table_names(migrated.url) == names | {VERSION_TABLE}


@pytest.mark.parametrize("table", DOCUMENTED)
def test_columns_have_the_documented_order_types_and_nullability(
    migrated: Migrated, table: str
) -> None:
    found = {
        name: (column.type, column.nullable)
        for name, column in migrated.read(table).columns.items()
    }
    expected = {
        name: (sql_type(text.removesuffix(" null"), migrated.settings), text.endswith(" null"))
        for name, text in DOCUMENTED[table].columns.items()
    }
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize("table", DOCUMENTED)
def test_counters_begin_at_zero_and_times_at_now(migrated: Migrated, table: str) -> None:
    found = migrated.read(table).columns
    for name in DOCUMENTED[table].defaults:
        assert found[name].default == "0"
    for name in ("created_at", "updated_at"):
        if name in found:
            assert found[name].default == "now()"


@pytest.mark.parametrize("table", DOCUMENTED)
def test_the_database_can_draw_the_id(migrated: Migrated, table: str) -> None:
    column = migrated.read(table).columns["id"]
    assert (column.identity, column.default) == {
        "bigint": ("d", None),
        "uuid": ("", "almanac_uuid7()"),
        "ulid": ("", "almanac_ulid()"),
    }[migrated.settings.primary_key_type]


@pytest.mark.parametrize("table", DOCUMENTED)
def test_primary_keys_are_the_id(migrated: Migrated, table: str) -> None:
    assert migrated.read(table).of_kind("p") == {f"pk_{migrated.name(table)}": "PRIMARY KEY (id)"}


@pytest.mark.parametrize("table", DOCUMENTED)
def test_foreign_keys_point_where_documented_and_do_on_delete_what_is_documented(
    migrated: Migrated, table: str
) -> None:
    expected = {}
    for column, (target, on_delete) in DOCUMENTED[table].references.items():
        rule = "" if on_delete == "NO ACTION" else f" ON DELETE {on_delete}"
        expected[f"fk_{migrated.name(table)}_{column}"] = (
            f"FOREIGN KEY ({column}) REFERENCES {migrated.name(target)}(id){rule}"
        )
    assert migrated.read(table).of_kind("f") == expected


@pytest.mark.parametrize("table", DOCUMENTED)
def test_unique_constraints_have_the_documented_names_and_columns(
    migrated: Migrated, table: str
) -> None:
    documented = DOCUMENTED[table]
    expected = {name: f"UNIQUE ({', '.join(c)})" for name, c in documented.unique.items()}
    for column in documented.unique_columns:
        expected[f"uq_{migrated.name(table)}_{column}"] = f"UNIQUE ({column})"
    assert migrated.read(table).of_kind("u") == expected


@pytest.mark.parametrize("table", DOCUMENTED)
def test_indexes_have_the_documented_names_and_columns(migrated: Migrated, table: str) -> None:
    found = migrated.read(table)
    expected = dict(DOCUMENTED[table].indexes)
    for column in DOCUMENTED[table].indexed:
        expected[f"ix_{migrated.name(table)}_{column}"] = (column,)
    for name, columns in expected.items():
        assert found.index_columns(name) == columns


@pytest.mark.parametrize("table", DOCUMENTED)
def test_every_foreign_key_has_an_index_that_begins_with_it(migrated: Migrated, table: str) -> None:
    found = migrated.read(table)
    leading = {re.findall(r"\(\(*([a-z_]+)", text)[0] for _, text in found.indexes.values()}
    assert set(DOCUMENTED[table].references) <= leading


@pytest.mark.parametrize("table", DOCUMENTED)
def test_unsigned_numbers_have_a_check(migrated: Migrated, table: str) -> None:
    checks = migrated.read(table).of_kind("c")
    for column, text in DOCUMENTED[table].columns.items():
        if text.startswith("unsigned"):
            assert checks[f"ck_{migrated.name(table)}_{column}"] == f"CHECK (({column} >= 0))"


def test_names_are_never_cut(migrated: Migrated) -> None:
    tables = [migrated.read(table) for table in TableNames.model_fields]
    names = [name for table in tables for name in (*table.constraints, *table.indexes)]
    assert max(len(name) for name in names) <= 63
    for table in TableNames.model_fields:
        for name in migrated.read(table).constraints:
            assert migrated.name(table) in name or not name.startswith(("pk", "fk", "uq", "ck"))


def test_the_choices_above_hold_every_key_type() -> None:
    chosen = CHOICES.values()
    assert {s.primary_key_type for s in chosen} == set(get_args(PrimaryKeyType))
    for setting in ("owner_key_type", "subject_key_type", "key_type"):
        assert {getattr(s, setting) for s in chosen} == set(get_args(MorphKeyType))
