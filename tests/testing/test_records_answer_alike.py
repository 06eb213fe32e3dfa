from __future__ import annotations

import random

import pytest

from tests.testing.pair import Pair
from tests.testing.sides import real_side

STEPS = 250
ALL = {"start", "tell", "emit", "match", "work", "age", "append", "lease", "relay"}


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_both_records_answer_alike_and_hold_the_same_rows(
    seed: int, database_url: str
) -> None:
    async with real_side(database_url) as real:
        pair = Pair(real, random.Random(seed))
        await pair.happen(STEPS)
        for ulid in pair.keys:
            await pair.compare(ulid)
    assert pair.done.keys() == ALL
