from __future__ import annotations

import pytest

from tests.testing.seeds import SECOND, all_hold, parts


@pytest.mark.parametrize("seeds", parts(SECOND), ids=str)
def test_whatever_goes_wrong_every_instance_comes_to_its_end_and_nothing_happens_twice(
    seeds: range,
) -> None:
    all_hold(seeds)
