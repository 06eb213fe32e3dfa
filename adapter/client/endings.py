"""Waiting for many instances at once on an event loop, over one connection that listens.

async with Endings(settings) as endings:
    status = await endings.wait(started.ulid, 30)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Self

from adapter.errors import NotFound, Unavailable
from adapter.records.nudging import ENDED_CHANNEL, listen
from adapter.records.pooling import make_pool
from adapter.services.reading import accept_ulid
from adapter.services.views import ENDED

if TYPE_CHECKING:
    from adapter.settings import Settings

LOGGER = logging.getLogger("almanac.endings")

LOOK = 0.5
"""Seconds between two looks at all instances waited for, should a nudge get lost."""

RETRY = 1.0


class Endings:
    """Tells coroutines when instances have ended.

    Args:
        settings: Names the database and its tables.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._query = f"SELECT ulid, status FROM {settings.tables.instances} WHERE ulid = ANY ($1)"
        self._waiting: dict[str, list[asyncio.Future[str]]] = {}
        self._look = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._pool: Any = None

    async def __aenter__(self) -> Self:
        self._pool = await make_pool(self._settings, 1)
        self._tasks = [
            asyncio.create_task(self._listen(), name="almanac-endings-listen"),
            asyncio.create_task(self._look_again(), name="almanac-endings-look"),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.close()

    async def wait(self, ulid: str, seconds: float = 60) -> str:
        """Returns the status that an instance has ended with.

        Raises:
            Unavailable: ``wait_timeout``: it has not ended in time; it goes on all the same.
            NotFound: No such instance.
            InvalidInput: ``invalid_ulid``.
        """
        ulid = accept_ulid(ulid)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(ulid, []).append(future)
        try:
            async with asyncio.timeout(seconds):
                status = await self._status(ulid)
                if status is None:
                    raise NotFound(f"no instance has the ulid {ulid!r}", ulid=ulid)
                return status if status in ENDED else await future
        except TimeoutError:
            raise Unavailable(
                f"instance {ulid} has not ended within {seconds:g} s; it goes on",
                code="wait_timeout",
                ulid=ulid,
            ) from None
        finally:
            left = self._waiting.get(ulid, [])
            with contextlib.suppress(ValueError):
                left.remove(future)
            if not left:
                self._waiting.pop(ulid, None)

    async def fetch(self, query: str, *arguments: Any) -> Any:
        """One row of a query of the caller's own, over the same connection."""
        return await self._pool.fetchrow(query, *arguments)

    async def _status(self, ulid: str) -> str | None:
        rows = await self._pool.fetch(self._query, [ulid])
        return rows[0]["status"] if rows else None

    async def _listen(self) -> None:
        while True:
            try:
                await listen(self._settings, ENDED_CHANNEL, self._heard)
            except Exception as error:
                LOGGER.warning("listening for ends: %s: %s", type(error).__name__, error)
            await asyncio.sleep(RETRY)

    def _heard(self, ulid: str) -> None:
        if not ulid or ulid in self._waiting:
            self._look.set()

    async def _look_again(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._look.wait()
            self._look.clear()
            if not self._waiting:
                continue
            try:
                rows = await self._pool.fetch(self._query, list(self._waiting))
            except Exception as error:
                LOGGER.warning("looking for ends: %s: %s", type(error).__name__, error)
                continue
            for row in rows:
                if row["status"] in ENDED:
                    self._settle(row["ulid"], row["status"])

    def _settle(self, ulid: str, status: str) -> None:
        for future in self._waiting.get(ulid, []):
            if not future.done():
                future.set_result(status)
