"""Databases of every earlier revision are brought to the newest with all their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine

from adapter.records.migrating import head, scripts_path, upgrade, verify
from adapter.records.urls import sqlalchemy_url
from adapter.settings import Settings
from tests.records.catalog import table_names
from tests.upgrades.midway import Rows, load_rows, read_rows
from tests.upgrades.recorded import record, versions

if TYPE_CHECKING:
    from collections.abc import Iterable

EARLIER = [
    script.revision
    for script in reversed(list(ScriptDirectory(str(scripts_path())).walk_revisions()))
    if script.revision != head()
]


@pytest.mark.parametrize("number", versions())
@pytest.mark.parametrize("revision", EARLIER)
def test_an_upgrade_keeps_every_row(number: str, revision: str, empty_database_url: str) -> None:
    settings, url = Settings(), empty_database_url
    upgrade(url, settings, revision)
    there = table_names(url)
    rows = {
        table: found
        for table, found in record(number).items()
        if getattr(settings.tables, table) in there
    }
    engine = create_engine(sqlalchemy_url(url))
    with engine.begin() as connection:
        load_rows(connection, settings, rows)
        before = _read(connection, settings, set(rows))

    upgrade(url, settings)

    verify(url, settings)
    with engine.begin() as connection:
        after = _read(connection, settings, set(rows))
    engine.dispose()
    assert {"instances", "step_runs", "waits", "versions"} <= set(before)
    for table, kept in before.items():
        assert len(kept) == len(rows[table])
        assert _sorted(_as_before(row, kept[0]) for row in after[table]) == kept


def _read(connection: Connection, settings: Settings, tables: set[str]) -> Rows:
    rows = read_rows(connection, settings, tables)
    return {table: _sorted(found) for table, found in rows.items()}


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


def _as_before(row: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The columns that there were; those that came since are a migration's own business."""
    return {column: row[column] for column in before}
