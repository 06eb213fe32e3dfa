"""Waiting for what a row will say, by looking at it ever less often."""

from __future__ import annotations

import math
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from adapter.errors import InvalidInput, Unavailable
from adapter.services.views import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.services.applying import Applied
    from adapter.services.commanding import Receipt

T = TypeVar("T")

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
    status = ""

    def ended() -> str | None:
        nonlocal status
        status = look()
        return status if status in ENDED else None

    seconds = _seconds(timeout)
    if _until_told(ended, seconds, sleep, now) is None:
        raise Unavailable(
            f"instance {ulid} has not ended within {seconds:g} s, it is {status} and goes on",
            code="wait_timeout",
            ulid=ulid,
            status=status,
        )


def wait_for_applied(
    look: Callable[[], Applied | None],
    receipt: Receipt,
    timeout: float | timedelta,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Applied:
    """Returns what an instance made of a command, as soon as it has got to it.

    Args:
        look: Reads it, each time in a transaction of its own.
        receipt: The command's, for the message.
        timeout: How long to wait, in seconds.
        sleep: Pauses between two looks.
        now: The clock that the time-out is measured by.

    Raises:
        InvalidInput: The time-out is no positive number (``invalid_timeout``).
        Unavailable: Not applied in time (``wait_timeout``); it will be all the same.
    """
    seconds = _seconds(timeout)
    if (told := _until_told(look, seconds, sleep, now)) is not None:
        return told
    raise Unavailable(
        f"instance {receipt.ulid} has not applied the {receipt.kind} within {seconds:g} s; it stays"
        " in its inbox",
        code="wait_timeout",
        ulid=receipt.ulid,
        id=receipt.id,
    )


def _until_told(
    look: Callable[[], T | None],
    seconds: float,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> T | None:
    until, pause = now() + seconds, FIRST_PAUSE
    while (told := look()) is None:
        left = until - now()
        if left <= 0:
            return None
        sleep(min(pause, left))
        pause = min(pause * GROWTH, LONGEST_PAUSE)
    return told


def _seconds(timeout: float | timedelta) -> float:
    given: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    usable = isinstance(given, int | float) and abs(given) <= sys.float_info.max
    seconds = float(given) if usable else math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidInput(
            f"a time-out must be a number of seconds from 0 on, not {timeout!r:.80}",
            code="invalid_timeout",
        )
    return seconds
