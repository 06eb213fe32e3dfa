"""Free loopback ports for servers that must come back on the same port after a restart.

The ports lie below the range from which the kernel serves outgoing connections (32768 and up on
Linux, 49152 on macOS): otherwise any client's connection could take a server's port while it is
down.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FIRST, _LAST = 20_000, 32_000
_APART = 16  # processes with neighbouring ids look in different places, so that they do not race


def free_ports(count: int) -> list[int]:
    """``count`` different ports of 127.0.0.1 that nobody listens on now.

    Raises:
        OSError: Fewer than ``count`` are free.
    """
    span = _LAST - _FIRST
    start = os.getpid() * _APART
    found: list[int] = []
    for step in range(span):
        if len(found) == count:
            break
        port = _FIRST + (start + step) % span
        if is_free(port):
            found.append(port)
    if len(found) < count:
        raise OSError(f"fewer than {count} ports between {_FIRST} and {_LAST} are free")
    return found


def is_free(port: int) -> bool:
    """Tells whether a server could listen on ``port`` of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as servers do: connections of the server's last life that linger do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def remembered_ports(file: Path, names: Sequence[str]) -> dict[str, int]:
    """A port for each name: the one that ``file`` remembers if it is still free, else a new one.

    The answer is written back, so a development stack keeps its addresses from day to day.
    """
    known: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        known = {str(name): int(port) for name, port in json.loads(file.read_text()).items()}
    ports = {name: known[name] for name in names if name in known and is_free(known[name])}
    missing = [name for name in names if name not in ports]
    ports |= dict(zip(missing, free_ports(len(missing)), strict=True))
    file.write_text(json.dumps(known | ports))
    return ports
