"""The parent's side of a contender's process: starts it, asks, waits for the answer, ends it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks.errors import ContenderFailed, NotInstalled

if TYPE_CHECKING:
    from benchmarks.contenders.contract import Servers
    from benchmarks.loads import Load

_ROOT: Final = Path(__file__).parent.parent
_SETUP_SECONDS: Final = 400.0
_RUN_SECONDS: Final = 180.0
_TEARDOWN_SECONDS: Final = 30.0
_TAIL: Final = 1_500


class Stage:
    """One contender's process.

    Args:
        name: Which contender.
        log: The file that takes all it prints.
    """

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.child", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=_ROOT,
                env=os.environ | {"PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C is ours alone to act on
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def setup(self, servers: Servers) -> dict[str, Any]:
        """Sets the contender up and returns its facts.

        Raises:
            NotInstalled: It cannot take part.
            ContenderFailed: It failed.
        """
        facts: dict[str, Any] = self._ask(
            {"do": "setup", "servers": servers.as_json()}, _SETUP_SECONDS
        )["facts"]
        return facts

    def run(self, load: Load) -> float:
        """Has the load run and returns its seconds.

        Raises:
            ContenderFailed: It failed, returned wrong results or took too long.
        """
        return float(self._ask({"do": "run", "load": load.name}, _RUN_SECONDS)["seconds"])

    def teardown(self) -> dict[str, Any]:
        """Takes the contender down and returns what only it measured.

        Raises:
            ContenderFailed: It failed.
        """
        extra: dict[str, Any] = self._ask({"do": "teardown"}, _TEARDOWN_SECONDS)["extra"]
        return extra

    def end(self) -> None:
        """Ends the process: by closing its input, else by a signal to it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TEARDOWN_SECONDS)
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ContenderFailed(self._with_log("its process ended")) from None
        reply = json.loads(self._line(request["do"], seconds))
        if "ok" in reply:
            answer: dict[str, Any] = reply["ok"]
            return answer
        raise NotInstalled(reply["error"]) if reply["left_out"] else ContenderFailed(reply["error"])

    def _line(self, asked: str, seconds: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                self._process.kill()
                raise ContenderFailed(
                    self._with_log(f"{asked} did not end within {seconds:g} seconds")
                )
        line = self._process.stdout.readline()
        if not line:
            raise ContenderFailed(self._with_log("its process ended"))
        return line

    def _with_log(self, what: str) -> str:
        printed = self._log.read_text(errors="replace")[-_TAIL:].strip() or "(nothing)"
        return f"{what}. It printed last:\n{printed}"
