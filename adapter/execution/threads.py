"""Threads for plain handlers, which nothing can interrupt and which may never come back.

A handler that has overrun its time-out keeps its thread until it returns. Such threads are made
up for, up to a bound, so that the handlers behind them go on.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.execution.attempt import Call

_LOGGER = logging.getLogger("almanac.handlers")


class Threads:
    """Runs calls on threads of their own, so many at once.

    The threads are daemons: an interpreter does not wait for them when it exits.

    Args:
        size: Calls that run at once.
        spare: How many more while that many have overrun their time-out.
    """

    def __init__(self, size: int, spare: int) -> None:
        self._size = size
        self._spare = spare
        self._changed = threading.Condition()
        self._queue: deque[tuple[Call, Callable[[], None]]] = deque()
        self._idle = 0
        self._live = 0
        self._overrun: set[Call] = set()
        self._stopped = False

    def submit(self, call: Call, run: Callable[[], None]) -> None:
        """Queues a call.

        Args:
            call: Dropped before it begins when it has ended meanwhile.
            run: Runs it and reports its end; must not raise.
        """
        with self._changed:
            if self._stopped:
                return
            self._queue.append((call, run))
            self._staff()

    def overran(self, call: Call) -> None:
        """Takes note of a running call whose time is over: another thread takes its place."""
        with self._changed:
            if self._stopped:
                return
            told = any(other.action.name == call.action.name for other in self._overrun)
            self._overrun.add(call)
            held = len(self._overrun)
            self._staff()
        if told:
            return
        _LOGGER.warning(
            "action %r did not return within its %g s and keeps its thread (node %r of instance"
            " %s); %d of at most %d threads are held like this",
            call.action.name,
            call.timeout,
            call.node,
            call.ulid,
            held,
            self._size + self._spare,
        )

    def stuck(self) -> list[Call]:
        """The calls that queue, while all threads there may be are held by calls that overran."""
        with self._changed:
            if len(self._overrun) < self._size + self._spare:
                return []
            return [call for call, _ in self._queue]

    def drop(self, call: Call) -> None:
        """Takes a call out of the queue."""
        with self._changed:
            self._queue = deque(item for item in self._queue if item[0] is not call)

    def holders(self) -> list[str]:
        """The names of the actions whose calls have overrun and still hold threads."""
        with self._changed:
            return sorted({call.action.name for call in self._overrun})

    def stop(self) -> None:
        """Lets threads end; one that is in a handler is left behind."""
        with self._changed:
            self._stopped = True
            self._queue.clear()
            self._changed.notify_all()

    def _allowed(self) -> int:
        return self._size + min(len(self._overrun), self._spare)

    def _staff(self) -> None:
        """Wakes a thread, or starts one where none is idle and there may be more."""
        if not self._queue:
            return
        if self._idle >= len(self._queue):
            self._changed.notify()
        elif self._live < self._allowed():
            self._live += 1
            threading.Thread(target=self._main, name="almanac-plain-handler", daemon=True).start()

    def _main(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._stopped and self._live <= self._allowed():
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                if self._stopped or self._live > self._allowed():
                    self._live -= 1
                    # It may have been woken for a call that it must leave to another.
                    self._changed.notify()
                    return
                call, run = self._queue.popleft()
            if not call.ended:
                run()
            with self._changed:
                self._overrun.discard(call)
            # A thread that waits for the next call must not keep this one's values alive.
            del call, run
