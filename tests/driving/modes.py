"""Ways to drive instances, all of which must lead to the same rows.

``plain`` is production's. ``continued`` continues as new after every turn, so that no run knows
more than one, and no turn knows what the one before it has read. ``twice`` takes every turn and
runs every queued step twice, as happens when a worker dies between the end of one and Temporal's
learning of it. ``ALMANAC_TEST_DRIVING`` chooses for a whole run of the tests.
"""

from __future__ import annotations

import os

MODES = ("plain", "continued", "twice")
VARIABLE = "ALMANAC_TEST_DRIVING"


def chosen() -> str:
    """The way that the environment asks for."""
    mode = os.environ.get(VARIABLE) or "plain"
    if mode not in MODES:
        raise ValueError(f"{VARIABLE}={mode!r}: use one of {', '.join(MODES)}")
    return mode
