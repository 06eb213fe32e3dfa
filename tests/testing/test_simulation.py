from __future__ import annotations

import pytest

from adapter.testing.simulation import simulate

SEEDS = 400
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_goes_wrong_every_instance_comes_to_its_end_and_nothing_happens_twice(
    part: int,
) -> None:
    outcomes = [simulate(seed) for seed in range(part, SEEDS, PARTS)]
    assert [(o.seed, o.problem) for o in outcomes if o.problem is not None] == []
    for happened in ("crashes", "wipes", "jumps", "commands"):
        assert sum(outcome.counts[happened] for outcome in outcomes) > len(outcomes) / 4


def test_a_seed_decides_everything() -> None:
    assert simulate(11) == simulate(11)
