"""The seeds that every run of the tests simulates, in parts of some seconds each."""

from __future__ import annotations

from adapter.testing.simulation import simulate

FIRST = range(500)
SECOND = range(500, 1_000)
STEP = 50


def parts(seeds: range) -> list[range]:
    """The seeds, cut into ranges."""
    return [seeds[place : place + STEP] for place in range(0, len(seeds), STEP)]


def all_hold(seeds: range) -> None:
    """Simulates the seeds; what breaks is told with the command that replays it."""
    broken = [outcome for outcome in map(simulate, seeds) if outcome.problem is not None]
    assert not broken, "\n".join(map(str, broken))
