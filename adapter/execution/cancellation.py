"""The word that a handler's result is not wanted any more."""

from __future__ import annotations

import threading

_MAKING = threading.Lock()


class Cancellation:
    """A flag that any thread may set, test and wait for, as a ``threading.Event``.

    Every step has one and hardly any handler waits for it: what waiting needs is made by the first
    who does.
    """

    __slots__ = ("_event", "_set")

    def __init__(self) -> None:
        self._set = False
        self._event: threading.Event | None = None

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._set

    def set(self) -> None:
        """Sets it, for good, and wakes all who wait."""
        # In this order: who makes the event after the look below sees the flag set.
        self._set = True
        if self._event is not None:
            self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set; a handler can pause so, and still stop at once.

        Args:
            timeout: Seconds; None for as long as it takes.

        Returns:
            Whether it is set.
        """
        if self.is_set():
            return True
        with _MAKING:
            event = self._event or threading.Event()
            self._event = event
        if self.is_set():
            return True
        return event.wait(timeout)
