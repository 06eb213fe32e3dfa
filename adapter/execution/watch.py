"""A thread that keeps time: for handlers whose own thread cannot, and for looking at loops.

Plain handlers run on threads that they keep busy, and a loop that is held up fires no timers.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGER = logging.getLogger("almanac.handlers")


class Timer:
    """Something to be done at a time.

    Args:
        due: By the monotonic clock.
        action: Called on the watch's thread; must not block.
    """

    __slots__ = ("action", "due")

    def __init__(self, due: float, action: Callable[[], None]) -> None:
        self.due = due
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Sees to it that nothing is done; from any thread."""
        self.action = None


class Watch:
    """Timers, and one regular look.

    Args:
        look: Called with the seconds by which it comes late.
        period: Seconds between two looks.
    """

    def __init__(self, look: Callable[[float], None], period: float) -> None:
        self._look = look
        self._period = period
        self._changed = threading.Condition()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._sweep_at = 256
        self._stopped = False
        self._thread = threading.Thread(target=self._main, name="almanac-watch", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread soon; timers that are left are forgotten."""
        with self._changed:
            self._stopped = True
            self._timers.clear()
            self._changed.notify()

    def call_at(self, due: float, action: Callable[[], None]) -> Timer:
        """Has something done at a time; from any thread."""
        timer = Timer(due, action)
        with self._changed:
            if len(self._timers) >= self._sweep_at:
                self._timers = [item for item in self._timers if item[2].action is not None]
                heapify(self._timers)
                self._sweep_at = 2 * len(self._timers) + 256
            heappush(self._timers, (due, next(self._numbers), timer))
            if self._timers[0][2] is timer:
                self._changed.notify()
        return timer

    def _main(self) -> None:
        next_look = time.monotonic() + self._period
        while True:
            with self._changed:
                due = min(next_look, self._timers[0][0]) if self._timers else next_look
                pause = due - time.monotonic()
                if pause > 0 and not self._stopped:
                    self._changed.wait(pause)
                if self._stopped:
                    return
                ready = self._take()
            for timer in ready:
                if timer.action is not None:
                    self._do(timer.action)
            late = time.monotonic() - next_look
            if late >= 0:
                self._do(lambda late=late: self._look(late))  # type: ignore[misc]
                next_look = time.monotonic() + self._period

    def _take(self) -> list[Timer]:
        now, ready = time.monotonic(), []
        while self._timers and self._timers[0][0] <= now:
            ready.append(heappop(self._timers)[2])
        return ready

    @staticmethod
    def _do(action: Callable[[], None]) -> None:
        # Without this thread no plain handler would ever time out.
        try:
            action()
        except Exception:
            _LOGGER.exception("the watch over handlers failed; it goes on")
