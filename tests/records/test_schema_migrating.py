from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from alembic import command
from alembic.config import Config

from adapter.errors import InvalidInput, Misconfigured, NotSupported, Unavailable
from adapter.records import migrating
from adapter.records.migrating import current, head, scripts_path, upgrade, upgrade_sql, verify
from adapter.settings import Settings, TableNames
from tests.records.catalog import read_table, table_names

if TYPE_CHECKING:
    from collections.abc import Callable

REVISIONS = [f"almanac_{number:04}" for number in range(1, 7)]
ROOT = Path(__file__).resolve().parents[2]


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def test_an_upgrade_tells_what_it_applied_and_the_next_has_nothing_to_do(
    empty_database_url: str,
) -> None:
    assert current(empty_database_url) is None
    assert upgrade(empty_database_url, Settings()) == REVISIONS
    assert current(empty_database_url) == head() == REVISIONS[-1]
    names = table_names(empty_database_url)
    before = [read_table(empty_database_url, name) for name in names]
    assert upgrade(empty_database_url, Settings()) == []
    assert [read_table(empty_database_url, name) for name in names] == before


def test_an_upgrade_goes_on_where_the_last_one_stopped(empty_database_url: str) -> None:
    assert upgrade(empty_database_url, Settings(), REVISIONS[0]) == REVISIONS[:1]
    with pytest.raises(Misconfigured, match="behind"):
        verify(empty_database_url, Settings())
    assert upgrade(empty_database_url, Settings()) == REVISIONS[1:]
    verify(empty_database_url, Settings())


def test_upgrades_at_the_same_time_take_turns(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(upgrade, empty_database_url, Settings()) for _ in range(4)]
    assert sorted(run.result() for run in runs) == [[], [], [], REVISIONS]


def test_a_failing_upgrade_leaves_nothing_behind(empty_database_url: str) -> None:
    execute(empty_database_url, "CREATE FUNCTION almanac_keep_journal() RETURNS int LANGUAGE sql "
            "AS 'SELECT 1'")  # fmt: skip
    with pytest.raises(Exception, match="almanac_keep_journal"):
        upgrade(empty_database_url, Settings())
    assert table_names(empty_database_url) == set()


def test_a_downgrade_is_refused_by_name(database_url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(scripts_path()))
    config.attributes[migrating.SETTINGS] = Settings(database_url=database_url)
    with pytest.raises(NotSupported, match="migrations go forward only") as refused:
        command.downgrade(config, "-1")
    assert refused.value.code == "downgrade_refused"
    assert current(database_url) == head()


OTHERS: dict[str, tuple[Settings, str]] = {
    "primary_key_type": (Settings(primary_key_type="uuid"), "bigint"),
    "owner_key_type": (Settings(owner_key_type="string"), "bigint"),
    "subject_key_type": (Settings(subject_key_type="uuid"), "bigint"),
    "key_type": (Settings(key_type="ulid"), "bigint"),
    "tables.instances": (Settings(tables=TableNames(instances="cases")), "workflow_instances"),
    "tables.definitions": (Settings(tables=TableNames(definitions="f")), "workflow_definitions"),
    "tables.workers": (Settings(tables=TableNames(workers="w")), "workflow_workers"),
}


@pytest.mark.parametrize("check", [upgrade, verify])
@pytest.mark.parametrize("fact", OTHERS)
def test_other_settings_than_the_databases_are_refused_with_both_values(
    database_url: str, fact: str, check: Callable[[str, Settings], object]
) -> None:
    settings, in_database = OTHERS[fact]
    with pytest.raises(Misconfigured, match="do not fit this database") as refused:
        check(database_url, settings)
    in_settings = getattr(settings.tables, fact[7:]) if "." in fact else getattr(settings, fact)
    assert refused.value.details["differing"] == {
        fact: {"database": in_database, "settings": in_settings}
    }
    variable = f"ALMANAC_{fact.upper().replace('.', '__')}"
    assert f"set {variable}={in_database};" in refused.value.details["remedy"]
    assert f"{fact} is '{in_database}' in the database and '{in_settings}' in the settings" in str(
        refused.value
    )


def test_the_choice_can_be_read_from_the_definitions_table(database_url: str) -> None:
    comment = read_table(database_url, "workflow_definitions").comment
    assert comment is not None
    assert '"primary_key_type": "bigint"' in comment
    assert '"tables.step_runs": "workflow_step_runs"' in comment


def test_a_database_without_migrations_is_refused_at_the_start(empty_database_url: str) -> None:
    with pytest.raises(Misconfigured, match="run the migrations first"):
        verify(empty_database_url, Settings())
    assert table_names(empty_database_url) == set()


def test_tables_of_somebody_else_are_left_alone(empty_database_url: str) -> None:
    execute(empty_database_url, "CREATE TABLE workflow_events (id int)")
    with pytest.raises(Misconfigured, match=r"not Almanac's: .*workflow_events"):
        upgrade(empty_database_url, Settings())
    upgrade(empty_database_url, Settings(tables=TableNames(events="workflow_facts")))


def test_a_table_name_that_sql_reserves_is_refused(empty_database_url: str) -> None:
    with pytest.raises(Misconfigured, match=r"SQL reserves .*'user'"):
        upgrade(empty_database_url, Settings(tables=TableNames(workers="user")))


def test_a_schema_of_its_own_holds_another_almanac(database_url: str) -> None:
    execute(database_url, "CREATE SCHEMA second")
    joint = "&" if "?" in database_url else "?"
    url = f"{database_url}{joint}options=-csearch_path%3Dsecond"
    settings = Settings(primary_key_type="uuid")
    assert upgrade(url, settings) == REVISIONS
    verify(url, settings)
    verify(database_url, Settings())


def test_two_almanacs_in_one_schema_are_refused(database_url: str) -> None:
    execute(
        database_url,
        "CREATE TABLE flows (id int)",
        "COMMENT ON TABLE flows IS 'Almanac: {}'",
    )
    with pytest.raises(Misconfigured, match=r"several Almanacs \(flows, workflow_definitions\)"):
        verify(database_url, Settings())


def test_an_older_almanac_goes_on_while_a_newer_one_is_rolled_out(database_url: str) -> None:
    execute(database_url, "UPDATE almanac_alembic_version SET version_num = 'almanac_9999'")
    verify(database_url, Settings())
    with pytest.raises(Misconfigured, match="a newer one has migrated it"):
        upgrade(database_url, Settings())


def test_a_revision_that_nobody_wrote_is_refused(empty_database_url: str) -> None:
    with pytest.raises(InvalidInput, match="no migration 'almanac_42'"):
        upgrade(empty_database_url, Settings(), "almanac_42")


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(Unavailable) as failed:
        upgrade("postgresql://user:secret@127.0.0.1:1/nowhere", Settings())
    assert failed.value.retryable
    assert "secret" not in str(failed.value)


def test_a_lock_that_is_not_to_be_had_is_unavailable(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(empty_database_url, Settings(), REVISIONS[1])
    monkeypatch.setattr(migrating, "LOCK_TIMEOUT", "50ms")
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("LOCK TABLE workflow_journal IN ROW EXCLUSIVE MODE")
        with pytest.raises(Unavailable, match="lock timeout"):
            upgrade(empty_database_url, Settings())
    assert upgrade(empty_database_url, Settings()) == REVISIONS[2:]


def test_a_user_who_may_not_create_tables_is_told_so(empty_database_url: str) -> None:
    execute(
        empty_database_url,
        "DROP ROLE IF EXISTS almanac_reader",
        "CREATE ROLE almanac_reader LOGIN",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    )
    joint = "&" if "?" in empty_database_url else "?"
    url = f"{empty_database_url}{joint}options=-crole%3Dalmanac_reader"
    with pytest.raises(Misconfigured, match="permission denied"):
        upgrade(url, Settings())
    execute(empty_database_url, "DROP ROLE almanac_reader")


@pytest.mark.parametrize("kind", ["bigint", "uuid", "ulid"])
def test_the_printed_sql_does_what_an_upgrade_does(
    empty_database_url: str, database_url: str, kind: str
) -> None:
    settings = Settings.model_validate({"primary_key_type": kind})
    execute(empty_database_url, upgrade_sql(settings))
    verify(empty_database_url, settings)
    assert upgrade(empty_database_url, settings) == []
    assert table_names(empty_database_url) == table_names(database_url)


def test_an_installed_package_brings_its_migrations_along(
    tmp_path: Path, empty_database_url: str
) -> None:
    site = tmp_path / "site"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "adapter", site / "adapter", ignore=ignore)
    shutil.copytree(ROOT / "migrations", site / "adapter" / "_migrations", ignore=ignore)
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os\n"
            "from adapter.records import migrating\n"
            "from adapter.settings import Settings\n"
            "print(migrating.scripts_path())\n"
            "print(*migrating.upgrade(os.environ['URL'], Settings()))\n",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "URL": empty_database_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        str(site / "adapter" / "_migrations"),
        " ".join(REVISIONS),
    ]
