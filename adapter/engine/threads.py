"""The threads that Temporal's client runs on: one set for each process, joined at its end.

They are not Python's. The last answer of a call reaches the event loop from one of them, which
then still has the interpreter to let go of. A program that ends meanwhile is aborted on Python
3.11 (``PyGILState_Release``, exit code 134), after all its work is done: three times in ten when
the call was the last thing that it did. So the threads are ended before the interpreter is: a
runtime joins its threads when nothing refers to it any more, and this one is let go of at exit.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import os
import sys
import time
import traceback
import weakref
from typing import TYPE_CHECKING, Final

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

if TYPE_CHECKING:
    from temporalio.client import Client

QUIET: Final = 0.1
"""Seconds for answers on their way, where a client that is still in use keeps the threads."""

_LOGGING: Final = LoggingConfig(
    TelemetryFilter(core_level="WARN", other_level="ERROR"),
    # By itself it writes to stdout, amidst what programs read there.
    forwarding=LogForwardingConfig(logging.getLogger("almanac.temporal")),
)


class Threads:
    """The threads of this process; made when they are first asked for, and again after a fork."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._hooked = False
        self._clients: weakref.WeakSet[Client] = weakref.WeakSet()

    def get(self) -> Runtime:
        """The runtime to connect with."""
        if self._runtime is None:
            self._runtime = Runtime(telemetry=TelemetryConfig(logging=_LOGGING))
        if not self._hooked:
            self._hooked = True
            atexit.register(self.end)
            if sys.platform != "win32":
                os.register_at_fork(after_in_child=self._forked)
        return self._runtime

    def serves(self, client: Client) -> None:
        """Notes a client that was connected with it."""
        self._clients.add(client)

    def end(self) -> None:
        """Ends the threads, unless a client is still in use; at the end of the process."""
        _forget_last_error()
        # Clients and workers refer to themselves in circles.
        gc.collect()
        self._runtime = None
        if self._clients:
            time.sleep(QUIET)

    def _forked(self) -> None:
        """Leaves the parent's threads alone: they are not here, and joining them has no end."""
        if self._runtime is not None:
            # Nothing may destroy it, not even the end of the interpreter.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._runtime._core_runtime))
        self._runtime = None
        self._clients = weakref.WeakSet()


def _forget_last_error() -> None:
    """Empties the frames of the exception that ended the program: clients stand in them."""
    error: BaseException | None = getattr(sys, "last_value", None)
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


threads: Final = Threads()
