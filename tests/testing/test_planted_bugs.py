from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATCHES = sorted((Path(__file__).parent / "planted").glob("*.patch"))
SEEDS = 40
"""Each bug is found among so many."""


@dataclass(frozen=True)
class Patch:
    """A change of one line, and the words that say what it breaks."""

    words: str
    file: str
    old: list[str]
    new: list[str]

    @classmethod
    def read(cls, path: Path) -> Patch:
        words, _, diff = path.read_text().partition("\n\n")
        source, _, _, *hunk = diff.splitlines()
        old = [line[1:] for line in hunk if line[0] in " -"]
        new = [line[1:] for line in hunk if line[0] in " +"]
        return cls(words, source.removeprefix("--- a/"), old, new)

    def plant(self, root: Path) -> None:
        file = root / self.file
        lines, length = file.read_text().splitlines(), len(self.old)
        places = [n for n in range(len(lines)) if lines[n : n + length] == self.old]
        assert len(places) == 1, f"{self.file} has changed: make the patch anew"
        lines[places[0] : places[0] + length] = self.new
        file.write_text("\n".join(lines) + "\n")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("adapter", "temporal_workflows"):
        shutil.copytree(ROOT / package, tmp_path / package)
    return tmp_path


def simulated(copy: Path) -> subprocess.CompletedProcess[str]:
    command = ["-m", "adapter.testing.simulation", "--count", str(SEEDS), "--until-broken"]
    return subprocess.run([sys.executable, *command], cwd=copy, capture_output=True, text=True)


def test_at_least_ten_bugs_are_planted_each_a_change_of_one_line() -> None:
    assert len(PATCHES) >= 10
    for patch in map(Patch.read, PATCHES):
        assert patch.words.endswith(".")
        assert "\n" not in patch.words
        assert sum(line not in patch.new for line in patch.old) <= 1
        assert sum(line not in patch.old for line in patch.new) <= 1
        assert patch.old != patch.new


def test_without_a_bug_nothing_breaks(copy: Path) -> None:
    result = simulated(copy)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{SEEDS} seeds in" in result.stdout


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_bug_is_found_and_told_with_the_command_that_replays_it(path: Path, copy: Path) -> None:
    Patch.read(path).plant(copy)
    result = simulated(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "replay: python -m adapter.testing.simulation --seed " in result.stdout
