"""Nudges: notifications that make waiting short, and on which nothing depends.

The relay polls and ``wait`` polls; a nudge only makes them look at once. Nudges are sent in a
transaction of their own that does not wait for the disk, never in one that carries data:
PostgreSQL commits transactions with notifications one after the other.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import psycopg
from sqlalchemy import text

from adapter.records.pooling import CONNECT_TIMEOUT, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from adapter.settings import Settings

RELAY_CHANNEL = "almanac_relay"
"""Rows were committed that a relay should look at; no payload."""

ENDED_CHANNEL = "almanac_ended"
"""An instance has ended; the payload is its ulid."""

_RELAY = text(
    f"SELECT pg_notify('{RELAY_CHANNEL}', '') FROM set_config('synchronous_commit', 'off', true)"
)
_ENDED = (
    f"SELECT pg_notify('{ENDED_CHANNEL}', u) FROM set_config('synchronous_commit', 'off', true),"
    " unnest($1::text[]) u"
)


def nudge_relays(connection: Connection) -> None:
    """Tells relays to look; call it after the commit of what they should see."""
    connection.execute(_RELAY)


async def tell_ended(connection: Any, ulids: Sequence[str]) -> None:
    """Tells those who wait that instances have ended.

    Args:
        connection: An asyncpg connection outside a transaction.
        ulids: The instances.
    """
    await connection.execute(_ENDED, list(ulids))


async def listen(settings: Settings, channel: str, heard: Callable[[str], None]) -> None:
    """Calls ``heard`` with the payload of each nudge, until the connection breaks.

    Args:
        settings: Names the database.
        channel: ``RELAY_CHANNEL`` or ``ENDED_CHANNEL``.
        heard: Called on the event loop; must not block.
    """
    broken = asyncio.Event()
    connection = await connect(settings)
    try:
        connection.add_termination_listener(lambda _connection: broken.set())
        await connection.add_listener(channel, lambda *heard_of: heard(str(heard_of[3])))
        heard("")
        await broken.wait()
    finally:
        connection.terminate()


class EndListener:
    """Pauses of a synchronous wait that are cut short when the instance ends.

    Args:
        settings: Names the database.
        ulid: The instance.
    """

    def __init__(self, settings: Settings, ulid: str) -> None:
        self._settings = settings
        self._ulid = ulid
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> Self:
        """Begins to listen; where that fails, pauses are just as long as they were asked to be."""
        with suppress(psycopg.Error):
            self._connection = psycopg.connect(
                str(self._settings.database_url),
                autocommit=True,
                connect_timeout=int(CONNECT_TIMEOUT),
                application_name="almanac listener",
            )
            self._connection.execute(f"LISTEN {ENDED_CHANNEL}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def pause(self, seconds: float) -> None:
        """Returns after ``seconds``, or as soon as the instance is said to have ended."""
        until = time.monotonic() + seconds
        if self._connection is not None:
            try:
                for told in self._connection.notifies(timeout=seconds):
                    if told.payload == self._ulid:
                        return
            except psycopg.Error:
                self._connection = None
        time.sleep(max(until - time.monotonic(), 0))
