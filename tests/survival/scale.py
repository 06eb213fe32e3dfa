"""How much of it: the short form for every day, the long one for ``make soak-survival``."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

LONG: Final = os.environ.get("ALMANAC_TEST_SURVIVAL") == "long"


def scaled(short: T, long: T) -> T:
    """The number of the form that is run."""
    return long if LONG else short
