"""Which of the servers that ``ALMANAC_*`` names are those of a data directory itself.

A shell that has sourced what ``almanac dev`` wrote names the servers of that run. When it starts
``almanac dev`` again on the same directory, they are not somebody else's servers but the ones to
start.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from temporal_workflows.dev.stack import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from temporal_workflows.dev.stack import Piece

_HOST = "127.0.0.1"


def without_own(environ: Mapping[str, str], data_dir: Path) -> dict[str, str]:
    """Returns the variables without those that name servers of ``data_dir``.

    PostgreSQL and Valkey are known by their passwords, which no other server has; Temporal by the
    port that the directory remembers.
    """
    own = {
        VARIABLES[piece] for piece in VARIABLES if _is_own(piece, _named(environ, piece), data_dir)
    }
    return {name: value for name, value in environ.items() if name not in own}


def _named(environ: Mapping[str, str], piece: Piece) -> str:
    return environ.get(VARIABLES[piece], "")


def _is_own(piece: Piece, address: str, data_dir: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError):
        if piece == "temporal":
            ports = json.loads((data_dir / "ports.json").read_text())
            return address == f"{_HOST}:{ports[piece]}"
        url = urlsplit(address)
        password = (data_dir / piece / "password").read_text()
        return url.hostname == _HOST and unquote(url.password or "") == password
    return False
