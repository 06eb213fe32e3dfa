from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from adapter.errors import AlmanacError, Conflict, InvalidInput, Misconfigured, NotSupported
from adapter.records.installing import Installed, install
from adapter.records.migrating import scripts_path, upgrade, verify
from adapter.settings import Settings
from tests.records.catalog import read_table, table_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TODAY = date(2026, 3, 1)
OURS = [f"almanac_{file.stem[:4]}" for file in sorted((scripts_path() / "versions").glob("0*.py"))]
FILES = [file.stem[5:] for file in sorted((scripts_path() / "versions").glob("0*.py"))]

ENV = """
import os
from alembic import context
from sqlalchemy import create_engine, NullPool
from adapter.records.urls import sqlalchemy_url

engine = create_engine(sqlalchemy_url(os.environ["HOST_DATABASE_URL"]), poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""


@dataclass
class Host:
    """The Alembic tree of an application."""

    directory: Path

    @property
    def versions(self) -> Path:
        return self.directory / "versions"

    @property
    def config(self) -> Config:
        config = Config()
        config.set_main_option("script_location", str(self.directory))
        return config

    def add(self, revision: str, *follows: str, label: str | None = None) -> None:
        down = follows[0] if len(follows) == 1 else follows or None
        (self.versions / f"{revision}.py").write_text(
            "from alembic import op\n"
            f"revision: str = {revision!r}\ndown_revision = {down!r}\nbranch_labels = {label!r}\n"
            f"def upgrade():\n    op.execute('CREATE TABLE host_{revision} (id int)')\n"
        )

    def install(self, **options: Any) -> Installed:
        return install(self.directory, on=options.pop("on", TODAY), **options)

    def upgrade(self, revision: str = "head") -> None:
        command.upgrade(self.config, revision)

    def order(self) -> list[str]:
        """Alembic's own view of the tree, first revision first."""
        scripts = ScriptDirectory.from_config(self.config)
        return [one.revision for one in scripts.walk_revisions()][::-1]

    def heads(self) -> list[str]:
        return sorted(ScriptDirectory.from_config(self.config).get_heads())


@pytest.fixture
def host(tmp_path: Path, empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Host:
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text(ENV)
    monkeypatch.setenv("HOST_DATABASE_URL", empty_database_url)
    return Host(tmp_path)


def refused(kind: type[AlmanacError], code: str, call: Callable[[], object]) -> AlmanacError:
    with pytest.raises(kind) as error:
        call()
    assert error.value.code == code
    return error.value


def test_a_host_with_one_head_gets_them_after_it(host: Host, empty_database_url: str) -> None:
    host.add("h1")
    done = host.install()
    assert [(one.revision, one.follows) for one in done.migrations] == list(
        zip(OURS, ["h1", *OURS], strict=False)
    )
    assert [one.file.name for one in done.migrations] == [
        f"2026_03_01_{revision}_{name}.py" for revision, name in zip(OURS, FILES, strict=True)
    ]
    assert (done.heads, done.upgrade) == ([OURS[-1]], "alembic upgrade head")
    assert host.order() == ["h1", *OURS]
    host.upgrade()
    assert {"workflow_instances", "host_h1", "alembic_version"} <= table_names(empty_database_url)
    verify(empty_database_url, Settings())
    with pytest.raises(Misconfigured, match="Alembic tree of its own") as refused:
        upgrade(empty_database_url, Settings())
    assert refused.value.details["remedy"].endswith("then alembic upgrade head")
    with pytest.raises(NotSupported):
        command.downgrade(host.config, OURS[1])


def test_a_host_without_migrations_gets_them_as_its_first(
    host: Host, empty_database_url: str
) -> None:
    assert host.install().migrations[0].follows is None
    host.add("h1", OURS[-1])
    host.upgrade()
    assert "host_h1" in table_names(empty_database_url)
    verify(empty_database_url, Settings())


def test_a_host_with_two_heads_is_asked_which_one(host: Host, empty_database_url: str) -> None:
    host.add("h1")
    host.add("h2a", "h1")
    host.add("h2b", "h1")
    error = refused(InvalidInput, "several_heads", host.install)
    assert error.details["heads"] == ["h2a", "h2b"]
    assert "h2a, h2b" in error.message
    assert "--after REVISION, or --branch-label LABEL" in error.message
    assert sorted(file.name for file in host.versions.iterdir()) == ["h1.py", "h2a.py", "h2b.py"]
    done = host.install(after="h2b")
    assert (done.heads, done.upgrade) == ([OURS[-1], "h2a"], "alembic upgrade heads")
    host.upgrade("heads")
    verify(empty_database_url, Settings())


@pytest.mark.parametrize("after", [None, "h1"])
def test_a_branch_of_their_own_has_a_label(
    host: Host, empty_database_url: str, after: str | None
) -> None:
    host.add("h1")
    host.add("h2", "h1")
    done = host.install(branch_label="flows", after=after)
    assert done.migrations[0].follows == after
    assert done.heads == host.heads() == [OURS[-1], "h2"]
    host.upgrade("flows@head")
    assert "host_h2" not in table_names(empty_database_url)
    verify(empty_database_url, Settings())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"after": "h9"}, r"no revision 'h9'; its heads are h2"),
        ({"after": "h1"}, r"h1 is not a head \(those are h2\)"),
        ({"branch_label": "a-b"}, "use letters, digits and _"),
        ({"branch_label": "mine"}, "has a branch 'mine' already"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(
    host: Host, options: dict[str, str], told: str
) -> None:
    host.add("h1", label="mine")
    host.add("h2", "h1")
    with pytest.raises(InvalidInput, match=told) as error:
        host.install(**options)
    assert error.value.code == "invalid_place"
    assert len(list(host.versions.glob("*.py"))) == 2


def test_again_there_is_nothing_to_write(host: Host) -> None:
    host.add("h1")
    host.install()
    before = {file: file.read_text() for file in host.versions.iterdir()}
    host.add("h2a", "h1")
    again = host.install(on=date(2026, 9, 1))
    assert (again.migrations, again.heads) == ([], [OURS[-1], "h2a"])
    assert before.items() <= {f: f.read_text() for f in host.versions.iterdir()}.items()


def older(host: Host, count: int) -> None:
    """Makes the tree what an earlier version with fewer migrations left."""
    for one in host.install().migrations[count:]:
        one.file.unlink()


def test_an_update_adds_what_is_new_after_what_the_host_wrote_since(
    host: Host, empty_database_url: str
) -> None:
    host.add("h1")
    older(host, 2)
    host.add("h2", OURS[1])
    host.upgrade()
    done = host.install(on=date(2026, 9, 1))
    assert [one.revision for one in done.migrations] == OURS[2:]
    assert done.migrations[0].follows == "h2"
    assert done.migrations[0].file.name.startswith("2026_09_01_")
    assert host.order() == ["h1", *OURS[:2], "h2", *OURS[2:]]
    host.upgrade()
    verify(empty_database_url, Settings())


def test_an_update_stays_on_the_branch_of_the_first_time(host: Host) -> None:
    host.add("h1")
    host.install(branch_label="almanac")
    for file in host.versions.glob(f"*{OURS[-1]}*"):
        file.unlink()
    (new,) = host.install().migrations
    assert (new.revision, new.follows) == (OURS[-1], OURS[-2])
    assert host.heads() == [OURS[-1], "h1"]


def test_an_update_comes_after_what_is_there_already(host: Host) -> None:
    host.add("h1")
    older(host, 2)
    host.add("h2a", OURS[1])
    host.add("h2b", OURS[1])
    host.add("h1b", "h1")
    error = refused(InvalidInput, "several_heads", host.install)
    assert error.details["heads"] == ["h2a", "h2b"]
    assert "--branch-label" not in error.message
    with pytest.raises(InvalidInput, match=f"does not come after {OURS[1]}"):
        host.install(after="h1b")
    with pytest.raises(InvalidInput, match="for the first time"):
        host.install(branch_label="late")
    host.add("merged", "h2a", "h2b")
    assert host.install().migrations[0].follows == "merged"


def test_a_migration_that_was_lost_comes_back_to_its_place(host: Host) -> None:
    host.add("h1")
    done = host.install()
    done.migrations[1].file.unlink()
    again = host.install(on=date(2026, 9, 1)).migrations
    assert [(one.revision, one.follows) for one in again] == [(OURS[1], OURS[0])]
    assert host.order() == ["h1", *OURS]
    done.migrations[0].file.unlink()
    refused(InvalidInput, "invalid_place", host.install)
    assert host.install(after="h1").migrations[0].follows == "h1"
    assert host.order() == ["h1", *OURS]


def test_a_dry_run_writes_nothing(host: Host) -> None:
    host.add("h1")
    planned = host.install(dry_run=True)
    assert [file.name for file in host.versions.iterdir()] == ["h1.py"]
    assert planned == host.install()


CHOSEN = {
    "ALMANAC_TABLES__INSTANCES": "cases",
    "ALMANAC_PRIMARY_KEY_TYPE": "ulid",
    "ALMANAC_OWNER_KEY_TYPE": "uuid",
    "ALMANAC_SUBJECT_KEY_TYPE": "string",
}


def test_names_and_key_types_are_those_of_alembics_run(
    host: Host, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.add("h1")
    host.install()
    for name, value in CHOSEN.items():
        monkeypatch.setenv(name, value)
    host.upgrade()
    table = read_table(empty_database_url, "cases")
    types = {name: table.columns[name].type for name in ("id", "owner_id", "subject_id")}
    assert types == {
        "id": "character(26)",
        "owner_id": "uuid",
        "subject_id": "character varying(191)",
    }
    verify(empty_database_url, Settings())


def test_the_scripts_of_a_host_are_read_and_not_run(host: Host) -> None:
    (host.versions / "h1.py").write_text(
        "import no_such_module\nrevision = 'h1'\ndown_revision = None\nraise SystemExit\n"
    )
    assert host.install().migrations[0].follows == "h1"


@pytest.mark.parametrize("text", ["revision = make()\n", "revision =\n", "revision = 4\n"])
def test_a_script_that_does_not_say_its_revision_is_named(host: Host, text: str) -> None:
    (host.versions / "odd.py").write_text(text)
    assert "odd.py" in refused(InvalidInput, "unreadable_migration", host.install).message


def test_either_directory_of_a_tree_will_do(host: Host) -> None:
    host.add("h1")
    by_versions = install(host.versions, on=TODAY, dry_run=True)
    assert by_versions == host.install(dry_run=True)


def test_a_directory_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    for directory in (tmp_path / "nowhere", tmp_path):
        refused(
            InvalidInput,
            "not_an_alembic_tree",
            lambda at=directory: install(at, on=TODAY),  # type: ignore[misc]
        )
    (tmp_path / "env.py").touch()
    refused(InvalidInput, "not_an_alembic_tree", lambda: install(tmp_path, on=TODAY))


def test_a_file_in_the_way_is_kept(host: Host) -> None:
    name = f"2026_03_01_{OURS[0]}_{FILES[0]}.py"
    (host.versions / name).write_text("# mine\n")
    refused(Conflict, "file_exists", host.install)
    assert (host.versions / name).read_text() == "# mine\n"
