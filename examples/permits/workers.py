"""Workers of a replay: processes of their own that end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING

from adapter.errors import Unavailable
from temporal_workflows.dev import keeper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
GRACE = 15
_TAIL = 2_000
_ALMANAC = "from adapter.cli.main import run; run()"


class Worker:
    """One worker process and the end of what it wrote."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def check(self) -> None:
        """Does nothing while the worker runs.

        Raises:
            Unavailable: It has ended; the message has the end of its log.
        """
        code = self._process.poll()
        if code is not None:
            raise Unavailable(f"A worker has ended with code {code}. {self.last_words()}")

    def last_words(self) -> str:
        """The end of what it wrote."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, SEEK_END) - _TAIL))
            tail = log.read().decode(errors="replace").strip()
        return f"The end of its log:\n{tail or '(nothing)'}"


@contextmanager
def workers(count: int, environment: Mapping[str, str]) -> Iterator[list[Worker]]:
    """Runs so many workers with the action of this example while the context is open.

    Args:
        count: May be 0, when somebody else runs them.
        environment: ``ALMANAC_*`` variables beside this process's own.
    """
    with ExitStack() as running:
        directory = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="replay-")))
        yield [
            running.enter_context(_worker(directory / f"worker-{number}.log", environment))
            for number in range(count)
        ]


@contextmanager
def _worker(log: Path, environment: Mapping[str, str]) -> Iterator[Worker]:
    command = [sys.executable, "-c", _ALMANAC, "worker", "--import", "examples.permits.actions"]
    terms = [str(int(signal.SIGTERM)), str(GRACE), ""]
    with log.open("wb") as output:
        # the keeper ends the worker even if this process is killed
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, *terms, "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=ROOT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        yield Worker(process, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
