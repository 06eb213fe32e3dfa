from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").touch()
    (tmp_path / "versions" / "h1.py").write_text("revision = 'h1'\ndown_revision = None\n")
    return tmp_path


def count(tree: Path) -> int:
    return len(list((tree / "versions").glob("*_almanac_*.py")))


def test_installing_lists_what_was_written_and_what_comes_next(cli: Cli, tree: Path) -> None:
    run = cli("install", str(tree))
    assert run.code == 0
    assert "almanac_0001" in run.out
    assert "next: alembic upgrade head, with the ALMANAC_* variables" in run.err
    assert run.out.count("_almanac_0") == count(tree) > 3
    again = cli("install", str(tree))
    assert (again.code, again.out[:13]) == (0, "nothing to do")


def test_a_dry_run_tells_the_same_as_json_and_writes_nothing(cli: Cli, tree: Path) -> None:
    planned = cli("install", str(tree), "--dry-run", "--json")
    assert (planned.code, count(tree)) == (0, 0)
    assert planned.data["dry_run"] is True
    assert planned.data["written"][0]["follows"] == "h1"
    done = cli("install", str(tree), "--json")
    assert done.data == {**planned.data, "dry_run": False}
    assert (done.data["next"], len(done.data["written"])) == ("alembic upgrade head", count(tree))


def test_several_heads_end_with_2_and_name_the_option(cli: Cli, tree: Path) -> None:
    (tree / "versions" / "h2.py").write_text("revision = 'h2'\ndown_revision = None\n")
    run = cli("install", str(tree), "--json")
    assert (run.code, run.out) == (2, "")
    assert (run.error["code"], run.error["details"]) == ("several_heads", {"heads": ["h1", "h2"]})
    assert "--after REVISION" in run.error["remedy"]
    assert cli("install", str(tree), "--after", "h2", "--json").data["heads"][-1] == "h1"


def test_a_branch_of_its_own(cli: Cli, tree: Path) -> None:
    run = cli("install", str(tree), "--branch-label", "flows", "--json")
    assert run.data["next"] == "alembic upgrade heads"
    assert run.data["written"][0]["follows"] is None


def test_a_directory_that_is_no_tree_ends_with_2(cli: Cli, tmp_path: Path) -> None:
    run = cli("install", str(tmp_path / "nowhere"))
    assert run.code == 2
    assert run.err.startswith("error[not_an_alembic_tree]")
    assert "env.py and versions/" in run.err
