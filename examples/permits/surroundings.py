"""What a replay says of the servers and the workers that it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from temporal_workflows.dev.stack import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adapter.settings import Settings
    from temporal_workflows.dev.stack import Piece, Stack

NAMES: dict[Piece, str] = {"postgres": "PostgreSQL", "temporal": "Temporal", "valkey": "Valkey"}
SEEN = 5
"""Seconds since its last sign of life in which a worker counts as alive."""


def sources(servers: Stack, named: Mapping[Piece, str | None]) -> Iterator[str]:
    """Says which servers are used and which ones are started.

    Args:
        servers: Those of the replay, not yet started.
        named: Those that its caller has named, by piece.
    """
    for piece, address in servers.addresses.items():
        if piece in servers.pieces:
            by = "as named here" if named.get(piece) else f"as {VARIABLES[piece]} says"
            say_of = without_password(address) if piece == "postgres" else address
            yield f"using {NAMES[piece]} at {say_of}, {by}"
    if own := [NAMES[piece] for piece in servers.pieces if piece not in servers.addresses]:
        yield f"starting {' and '.join(own)}"


def ending(servers: Stack, settings: Settings) -> str:
    """Says what becomes of the data when the replay is over."""
    own = [NAMES[piece] for piece in servers.pieces if piece not in servers.addresses]
    if "postgres" not in servers.addresses:
        return "stopping the servers; their data go with them"
    kept = f"the instances stay in {without_password(str(settings.database_url))}"
    return f"stopping {' and '.join(own)}; {kept}" if own else kept


def without_password(url: str) -> str:
    """A database's URL as it may be shown: host, port and database."""
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def other_workers(settings: Settings) -> str | None:
    """Warns of workers that take turns of the same database; None when there are none.

    Any of them may begin an instance, on whatever task queue. Which actions they have is not
    recorded.
    """
    statement = sql.SQL(
        "SELECT count(*) FROM {} WHERE stopped_at IS NULL"
        " AND seen_at > clock_timestamp() - make_interval(secs => %s)"
    ).format(sql.Identifier(settings.tables.workers))
    with psycopg.connect(str(settings.database_url)) as connection:
        row = connection.execute(statement, [SEEN]).fetchone()
    if row is None or row[0] == 0:
        return None
    count, it = ("another worker runs", "it") if row[0] == 1 else (f"{row[0]} others run", "them")
    return (
        f"warning: {count} on this database. Where the action permits.record is missing, cases "
        f"wait until another worker takes them, which may slow the replay down much: stop {it}, "
        "or replay on a database of its own"
    )
