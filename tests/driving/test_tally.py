from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.driving.modes import VARIABLE
from tests.driving.tally import Tally

if TYPE_CHECKING:
    from pathlib import Path

ONE = "turn a run1 1\n"
TWO_IN_TWO = "turn a run1 1\nturn a run2 1\nturn a run2 1\n"
TWO_IN_ONE = "turn a run1 1\nturn a run1 2\n"


@pytest.mark.parametrize(
    ("mode", "noted", "wrong"),
    [
        ("continued", "", ["no execution was continued as new"]),
        ("continued", f"{ONE}turn b run2 1\ntaken_afresh\n", ["no execution was continued as new"]),
        ("continued", TWO_IN_TWO, []),
        ("continued", TWO_IN_ONE, ["instance a took 2 turns in 1 runs"]),
        ("twice", "", ["no turn was taken twice"]),
        ("twice", ONE, ["no turn was taken twice"]),
        ("twice", f"{ONE}turn_twice a run1 1\n", []),
        ("twice", "taken_twice\n", []),
        ("plain", "", []),
    ],
)
def test_a_run_that_was_not_driven_as_asked_is_found_out(
    tmp_path: Path, mode: str, noted: str, wrong: list[str]
) -> None:
    (tmp_path / "tally").write_text(noted)
    assert Tally.read(tmp_path / "tally").wrong(mode) == wrong


def test_a_run_of_the_tests_in_which_nothing_was_driven_fails(
    pytestconfig: pytest.Config,
) -> None:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ALMANAC_", "PYTEST_"))}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider",
         "tests/graph/test_durations.py"],
        cwd=pytestconfig.rootpath,
        env={**inherited, VARIABLE: "twice"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout
    assert "WRONG: no turn was taken twice" in ran.stdout
    assert " failed" not in ran.stdout
