from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from adapter.interpreter.entries import KINDS
from adapter.testing.graphs import BEGINNING, graphs
from adapter.testing.simulation import main, simulate
from adapter.testing.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

SOME = range(120)

HAPPENS = {
    "activities doubled",
    "answers to pokes lost",
    "appends broken after the commit",
    "appends broken before the commit",
    "back-offs",
    "calls broken after they took effect",
    "calls broken before they took effect",
    "calls while the database was down",
    "cancelled done",
    "child done",
    "clock jumps",
    "crashes",
    "crashes at an await",
    "engine stopped",
    "event done",
    "events after their waits",
    "events before their waits",
    "handlers failed",
    "handlers timed out",
    "inline steps taken over",
    "late commits",
    "paused done",
    "pokes delayed",
    "pokes dropped",
    "pokes refused",
    "pokes repeated",
    "queued steps taken over",
    "resumed done",
    "retried done",
    "runs continued as new",
    "runs wiped",
    "signal_received done",
    "steps handed out in a turn",
    "steps offered again",
    "turns doubled",
    "workers killed by a handler",
    "workers stopped",
}


def test_all_that_can_go_wrong_does_in_every_hundred_seeds() -> None:
    counts: Counter[str] = Counter()
    for seed in SOME:
        counts.update(simulate(seed).counts)
    assert {name for name in HAPPENS if not counts[name]} == set()
    assert {kind for kind in KINDS if not counts[f"entry {kind}"]} == set()
    started = set(graphs()) - {BEGINNING}
    assert {key for key in started if not counts[f"{key} started"]} == set()


def test_a_seed_decides_everything_whatever_the_order_of_sets() -> None:
    seeds = range(8, 14)
    script = (
        "from adapter.testing.simulation import simulate\n"
        f"for seed in {seeds!r}: print(simulate(seed).trace)"
    )
    traces = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for salt in ("1", "2")
    ]
    here = [simulate(seed).trace for seed in seeds]
    assert traces == [here, here]
    assert len(set(here)) == len(seeds)


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has every seed break something."""

    def breaks(what: str) -> None:
        async def run(_world: object) -> None:
            raise AssertionError(what)

        monkeypatch.setattr(World, "run", run)

    return breaks


def test_what_breaks_is_told_with_the_command_that_replays_it(
    breaks: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    breaks("a row went backwards")
    assert main(["--first", "7", "--count", "2"]) == 1
    told = capsys.readouterr().out
    assert "seed 7: AssertionError: a row went backwards" in told
    assert "replay: python -m adapter.testing.simulation --seed 8 --log" in told
    assert "2 seeds in" in told


def test_a_replay_shows_all_that_is_written_and_what_happened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--seed", "3", "--log"]) == 0
    told = capsys.readouterr().out
    assert "append 2026-01-01 00:00:00" in told
    assert f"trace {simulate(3).trace}" in told
    assert "seed 3: all holds" in told


def test_many_seeds_can_be_spread_over_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "4", "--jobs", "2"]) == 0
    assert "4 seeds in" in capsys.readouterr().out
