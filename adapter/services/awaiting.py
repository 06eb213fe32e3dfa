"""Waiting for an instance's end by looking at its row, ever less often."""

from __future__ import annotations

import math
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from adapter.errors import InvalidInput, Unavailable
from adapter.services.views import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.5
GROWTH: Final = 1.3


def wait_for_end(
    look: Callable[[], str],
    ulid: str,
    timeout: float | timedelta,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Returns when the instance has ended.

    Args:
        look: Reads its status, each time in a transaction of its own.
        ulid: For the message.
        timeout: How long to wait, in seconds.
        sleep: Pauses between two looks.
        now: The clock that the time-out is measured by.

    Raises:
        InvalidInput: The time-out is no positive number (``invalid_timeout``).
        Unavailable: It has not ended in time (``wait_timeout``); it goes on all the same.
    """
    given: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    usable = isinstance(given, int | float) and abs(given) <= sys.float_info.max
    seconds = float(given) if usable else math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidInput(
            f"a time-out must be a number of seconds from 0 on, not {timeout!r:.80}",
            code="invalid_timeout",
        )
    until, pause = now() + seconds, FIRST_PAUSE
    while (status := look()) not in ENDED:
        left = until - now()
        if left <= 0:
            raise Unavailable(
                f"instance {ulid} has not ended within {seconds:g} s, it is {status} and goes on",
                code="wait_timeout",
                ulid=ulid,
                status=status,
            )
        sleep(min(pause, left))
        pause = min(pause * GROWTH, LONGEST_PAUSE)
