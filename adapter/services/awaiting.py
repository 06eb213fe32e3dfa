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

_START_ONE: Final = (
    "start a worker (almanac worker --import MODULE), then look again: almanac show ULID"
)

FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.5
GROWTH: Final = 1.3


def wait_for_end(
    look: Callable[[], str],
    ulid: str,
    timeout: float | timedelta,
    *,
    living: Callable[[], int] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Returns when the instance has ended.

    Args:
        look: Reads its status, each time in a transaction of its own.
        ulid: For the message.
        timeout: How long to wait, in seconds.
        living: Counts the workers that are alive, for the message.
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

    seconds = accept_timeout(timeout)
    if _until_told(ended, seconds, sleep, now) is None:
        told, facts = _workers(living)
        raise Unavailable(
            f"instance {ulid} has not ended within {seconds:g} s, it is {status}"
            f"{told or ' and goes on'}",
            code="wait_timeout",
            ulid=ulid,
            status=status,
            **facts,
        )


def wait_for_applied(
    look: Callable[[], Applied | None],
    receipt: Receipt,
    timeout: float | timedelta,
    *,
    living: Callable[[], int] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Applied:
    """Returns what an instance made of a command, as soon as it has got to it.

    Args:
        look: Reads it, each time in a transaction of its own.
        receipt: The command's, for the message.
        timeout: How long to wait, in seconds.
        living: Counts the workers that are alive, for the message.
        sleep: Pauses between two looks.
        now: The clock that the time-out is measured by.

    Raises:
        InvalidInput: The time-out is no positive number (``invalid_timeout``).
        Unavailable: Not applied in time (``wait_timeout``); it will be all the same.
    """
    seconds = accept_timeout(timeout)
    if (told := _until_told(look, seconds, sleep, now)) is not None:
        return told
    missing, facts = _workers(living)
    raise Unavailable(
        f"instance {receipt.ulid} has not applied the {receipt.kind} within {seconds:g} s; it stays"
        f" in its inbox{missing}",
        code="wait_timeout",
        ulid=receipt.ulid,
        id=receipt.id,
        **facts,
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


def _workers(living: Callable[[], int] | None) -> tuple[str, dict[str, Any]]:
    """What is to be said of the workers: something only when there is none."""
    if living is None or (count := living()):
        return "", {} if living is None else {"workers": count}
    return ", and no worker is alive", {"workers": 0, "remedy": _START_ONE}


def accept_timeout(timeout: float | timedelta) -> float:
    """Returns a time-out in seconds; ask before what would be waited for is written.

    Raises:
        InvalidInput: ``invalid_timeout``: it is no number of seconds from 0 on.
    """
    given: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    usable = isinstance(given, int | float) and abs(given) <= sys.float_info.max
    seconds = float(given) if usable else math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidInput(
            f"a time-out must be a number of seconds from 0 on, not {timeout!r:.80}",
            code="invalid_timeout",
        )
    return seconds
