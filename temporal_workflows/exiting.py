"""How a program of ours ends that may have used Temporal.

temporalio's core runs on threads that Python did not start. On Python 3.11 such a thread may
still want the interpreter while it is being torn down; ``PyGILState_Release`` then finds its
thread state gone and aborts the process: exit code 134 and a dump on stderr, *after* all work is
done and written. Whoever started us (a supervisor, a shell, CI) would see a crash that is none.

``adapter.engine.threads`` joins those threads at the end of any process that connects through it,
so programs of others may end as they like. Ours do not depend on what else runs in the process: a
handler that hangs in a thread, a client that a test has made by itself. They end by :func:`leave`
once their own resources are closed: what is buffered is written, and the operating system takes
the process away without a teardown.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """Ends the process at once with ``code``, after flushing the log handlers, stdout and stderr.

    Neither ``atexit`` functions nor ``finally`` blocks of other frames run any more: close what
    needs closing first. A stream that cannot be written (a closed pipe) does not change the code.
    """
    with contextlib.suppress(Exception):
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
