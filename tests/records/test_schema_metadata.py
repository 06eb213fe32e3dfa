from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import NullPool, create_engine

from adapter.records.columns import XID8
from adapter.records.migrating import VERSION_TABLE, upgrade
from adapter.records.tables import build_tables
from adapter.records.urls import sqlalchemy_url
from adapter.settings import Settings, TableNames
from tests.records.catalog import read_table
from tests.records.databases import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from temporal_workflows.dev.stack import Stack

CHOICES = {
    "bigint": Settings(),
    "uuid": Settings(
        primary_key_type="uuid", owner_key_type="uuid", subject_key_type="string", key_type="ulid"
    ),
    "ulid": Settings(
        primary_key_type="ulid",
        owner_key_type="string",
        tables=TableNames(instances="cases", journal="decisions", definitions="flows"),
    ),
}


@pytest.fixture(scope="module", params=CHOICES)
def choice(request: pytest.FixtureRequest, stack: Stack) -> Iterator[tuple[str, Settings]]:
    settings = CHOICES[request.param]
    with fresh_database(stack) as url:
        upgrade(url, settings)
        yield url, settings


@pytest.fixture
def connection(choice: tuple[str, Settings]) -> Iterator[Connection]:
    engine = create_engine(sqlalchemy_url(choice[0]), poolclass=NullPool)
    with engine.connect() as connection:
        known = connection.dialect.ischema_names  # type: ignore[attr-defined]
        connection.dialect.ischema_names = {**known, "xid8": XID8}  # type: ignore[attr-defined]
        yield connection


def test_alembic_finds_no_difference_between_metadata_and_database(
    choice: tuple[str, Settings], connection: Connection
) -> None:
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": VERSION_TABLE,
            "compare_type": True,
            "compare_server_default": True,
        },
    )
    assert compare_metadata(context, build_tables(choice[1]).metadata) == []


@pytest.mark.parametrize("table", TableNames.model_fields)
def test_the_metadata_creates_the_same_table_to_the_letter(
    choice: tuple[str, Settings], table: str, created: str
) -> None:
    url, settings = choice
    name = getattr(settings.tables, table)
    migrated, made = read_table(url, name), read_table(created, name)
    assert made == migrated
    assert list(made.columns) == list(migrated.columns)


@pytest.fixture(scope="module")
def created(choice: tuple[str, Settings], stack: Stack) -> Iterator[str]:
    """A database that the metadata made, with nothing of the migrations but their functions."""
    _, settings = choice
    with fresh_database(stack) as url:
        engine = create_engine(sqlalchemy_url(url), poolclass=NullPool)
        with engine.begin() as connection:
            for name, kind in (("uuid7", "uuid"), ("ulid", "character")):
                connection.exec_driver_sql(
                    f"CREATE FUNCTION almanac_{name}() RETURNS {kind} LANGUAGE sql "
                    f"AS 'SELECT NULL::{kind}'"
                )
            build_tables(settings).metadata.create_all(connection)
        yield url


def test_equal_choices_share_their_tables() -> None:
    assert build_tables(Settings()) is build_tables(Settings(task_queue="another"))
    assert build_tables(Settings()) is not build_tables(Settings(key_type="uuid"))


def test_tables_carry_the_names_of_the_settings() -> None:
    names = TableNames(instances="cases")
    tables = build_tables(Settings(tables=names))
    for field, name in names.model_dump().items():
        assert getattr(tables, field).name == name
