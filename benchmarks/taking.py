"""One sample: the load, repeated while it is short."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.loads import Load
    from benchmarks.stage import Stage

SAMPLE_SECONDS: Final = 0.5
MOST_REPEATS: Final = 5
_SETTLE_SECONDS: Final = 0.3


def take(stage: Stage, load: Load) -> float:
    """Pauses, then runs the load, several times if it is short; returns the median's seconds.

    Raises:
        ContenderFailed: The contender could not.
    """
    time.sleep(_SETTLE_SECONDS)
    taken: list[float] = []
    while len(taken) < MOST_REPEATS and sum(taken) < SAMPLE_SECONDS:
        taken.append(stage.run(load))
    return statistics.median(taken)
