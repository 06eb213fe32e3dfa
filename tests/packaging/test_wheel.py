from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds what the wheel installs, and nothing of the checkout."""
    made = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(made)]
    run(*pip, "wheel", *options, ROOT, cwd=made)
    (wheel,) = made.glob("*.whl")
    site = made / "site"
    run(*pip, "install", "--no-deps", "--no-compile", "--target", site, wheel, cwd=made)
    return site


def test_the_wheel_migrates_a_database_without_the_checkout(
    installed: Path, empty_database_url: str
) -> None:
    environment = {"PYTHONPATH": str(installed), "ALMANAC_DATABASE_URL": empty_database_url}
    where = (
        "import adapter, adapter.records.migrating as m; print(adapter.__file__, m.scripts_path())"
    )
    used = run(sys.executable, "-c", where, cwd=installed, **environment).split()
    assert all(path.startswith(str(installed)) for path in used)
    run(sys.executable, "-m", "adapter.cli", "migrate", cwd=installed, **environment)
    with psycopg.connect(empty_database_url) as connection:
        row = connection.execute("SELECT count(*) FROM workflow_step_runs").fetchone()
    assert row == (0,)


def test_the_wheel_holds_the_packages_and_nothing_else(installed: Path) -> None:
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"adapter", "temporal_workflows", "bin"}
    assert (installed / "adapter" / "py.typed").is_file()
