"""The Restate server: one binary from the npm registry, installed below benchmarks/restate."""

from __future__ import annotations

import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.errors import NotInstalled
from temporal_workflows.dev.child import Child
from temporal_workflows.dev.ports import free_ports

HOME: Final = Path(__file__).parent.parent / "restate"
_MACHINES: Final = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_INSTALL_SECONDS: Final = 300

_CONFIG: Final = """\
base-dir = "{data}"
node-name = "benchmark"
cluster-name = "benchmark"
disable-telemetry = true
listen-mode = "tcp"
bind-address = "127.0.0.1:{node}"
log-filter = "error"
log-disable-ansi-codes = true
default-num-partitions = {partitions}

[admin]
bind-address = "127.0.0.1:{admin}"
disable-web-ui = true

[ingress]
bind-address = "127.0.0.1:{ingress}"
"""


class RestateServer:
    """One node with the durability that it has by default: its log is on disk and synced.

    Args:
        directory: For its data, its configuration and what it prints.
        partitions: How many partitions it has.
    """

    def __init__(self, directory: Path, *, partitions: int) -> None:
        self._node, self._admin, self._ingress = free_ports(3)
        self._directory = directory
        self._partitions = partitions
        self._child = Child("Restate", directory / "log")
        self.admin_url = f"http://127.0.0.1:{self._admin}"
        self.ingress_url = f"http://127.0.0.1:{self._ingress}"

    def start(self) -> None:
        """Starts it and waits until both of its doors listen.

        Raises:
            NotInstalled: Its package is not there and cannot be installed.
            Unavailable: It did not come up; the message ends with its log.
        """
        binary = installed()
        config = self._directory / "restate.toml"
        config.write_text(
            _CONFIG.format(
                data=self._directory / "data",
                partitions=self._partitions,
                node=self._node,
                admin=self._admin,
                ingress=self._ingress,
            )
        )
        self._child.start(
            [binary, "--config-file", config, "--no-logo"], self._listens, deadline=60
        )

    def stop(self) -> None:
        """Ends it cleanly."""
        self._child.stop()

    def _listens(self) -> bool:
        for port in (self._admin, self._ingress):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                return False
        return True


def installed() -> Path:
    """The path of the server's binary, after ``npm ci`` if it was not there yet.

    Raises:
        NotInstalled: There is no npm, the installation failed, or this machine has no binary.
    """
    package = f"restate-server-{sys.platform}-{_MACHINES.get(platform.machine(), 'unknown')}"
    binary = HOME / "node_modules" / "@restatedev" / package / "bin" / "restate-server"
    if not binary.exists():
        _install()
    if not binary.exists():
        raise NotInstalled(f"Restate publishes no server for this machine (no {package})")
    return binary


def server_version() -> str:
    """The version that the binary reports, e.g. "1.7.12"."""
    answer = subprocess.run(
        [installed(), "--version"], capture_output=True, text=True, check=False
    ).stdout.split()
    return answer[1] if len(answer) > 1 else "unknown"


def _install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("the Restate server comes from the npm registry; there is no npm here")
    try:
        done = subprocess.run(
            # no install script is needed; the one among them reports usage
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=HOME,
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm ci was not done after {_INSTALL_SECONDS} seconds") from None
    if done.returncode != 0:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise NotInstalled(f"npm ci ended with code {done.returncode}: {reason}")
