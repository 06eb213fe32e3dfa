"""Workers in which something is odd: ``python -m tests.survival.odd_worker ODD worker ...``."""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from adapter.engine.temporal import TemporalEngine
from tests.driving.programs import run

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = timedelta(hours=1)


def _before_pokes(what: Callable[[], None]) -> None:
    """Has something happen when rows are claimed and their instances are not poked yet."""
    for name in ("start", "poke"):
        inner = getattr(TemporalEngine, name)

        async def wrapped(self: Any, ulid: str, labels: Any = None, inner: Any = inner) -> None:
            what()
            await inner(self, ulid, labels)

        setattr(TemporalEngine, name, wrapped)


def dying() -> None:
    """Dies before its next poke, as by SIGKILL, once it has been sent SIGUSR1."""
    armed: list[bool] = []
    signal.signal(signal.SIGUSR1, lambda *_: armed.append(True))

    def die() -> None:
        if armed:
            os.kill(os.getpid(), signal.SIGKILL)

    _before_pokes(die)


def stalling() -> None:
    """Stops before its first poke, as by SIGSTOP, with claims in hand."""

    def stall() -> None:
        if not stopped:
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)

    stopped: list[bool] = []
    _before_pokes(stall)


def _clock(shift: timedelta) -> None:
    """Has every clock of the day in the process go wrong; monotonic ones stay."""
    now, now_ns = time.time, time.time_ns

    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            return super().now(tz) + shift

        @classmethod
        def utcnow(cls) -> Self:
            return super().now(datetime.UTC).replace(tzinfo=None) + shift

    time.time = lambda: now() + shift.total_seconds()
    time.time_ns = lambda: now_ns() + int(shift.total_seconds()) * 10**9
    # Types are compared by identity in places, so the name is replaced where ours has looked it up.
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("adapter", "temporal_workflows", "ulid"):
            for own, value in list(vars(module).items()):
                if value is datetime.datetime:
                    setattr(module, own, Shifted)
                elif value is now:
                    setattr(module, own, time.time)


def fast() -> None:
    """Its clock is an hour ahead."""
    _import_all()
    _clock(HOUR)


def slow() -> None:
    """Its clock is an hour behind."""
    _import_all()
    _clock(-HOUR)


def _import_all() -> None:
    import temporal_workflows.worker  # noqa: F401 - whatever a worker imports


def brief() -> None:
    """Its runs of the driver end after a hundred pokes, as others do after thousands."""
    from temporal_workflows import driver

    driver.MAX_SIGNALS = 100


ODD = {"brief": brief, "dying": dying, "stalling": stalling, "fast": fast, "slow": slow}

if __name__ == "__main__":
    ODD[sys.argv.pop(1)]()
    run()
