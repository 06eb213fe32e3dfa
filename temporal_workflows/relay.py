"""The relay: turns rows into pokes. A set of loops in each worker; each outlives its errors.

Nothing depends on any one relay: claims skip what others hold, marks are hints, and what was poked
in vain is poked again. Starts have a lane of their own, so a command never queues behind them.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapter.engine.protocol import Labels
from adapter.errors import Unavailable
from adapter.records.nudging import RELAY_CHANNEL, listen, tell_ended
from adapter.records.relaying import Relaying

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adapter.engine.protocol import Engine
    from adapter.records.relaying import Claim
    from adapter.settings import Settings

LOGGER = logging.getLogger("almanac.relay")

START_BATCH = 24
POKE_BATCH = 200
AT_ONCE = 8
"""Calls to the engine under way at once, per lane."""

AGAIN_INTERVAL = 1.0
LISTEN_INTERVAL = 1.0
UNWATCHED_INTERVAL = 2.0
"""Seconds between two looks of a lane that nobody wakes."""

ERROR_FIRST = 0.5
ERROR_MOST = 10.0


@dataclass(slots=True)
class RelayReport:
    """What the relay has done since it began; written to the worker's row."""

    started: int = 0
    poked: int = 0
    again: int = 0
    swept: int = 0
    matched: int = 0
    errors: int = 0
    last_error: str | None = None
    lanes: dict[str, str] = field(default_factory=dict)


class Relay:
    """Claims rows and pokes their instances.

    Args:
        settings: Intervals and table names.
        pool: An asyncpg pool of its own, so that turns never wait for it.
        engine: What is poked.
        match: Matches a batch of emitted events to waits and triggers; returns how many events.
        settle: Applies what came for an instance, and begins nothing: while the engine is down,
            instances are cancelled without it.
    """

    def __init__(
        self,
        settings: Settings,
        pool: Any,
        engine: Engine,
        match: Callable[[], Awaitable[int]],
        settle: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        self._pool = pool
        self._engine = engine
        self._match = match
        self._settle = settle
        self._relaying = Relaying(settings)
        self._interval = settings.worker.relay_interval.total_seconds()
        self._sweep_interval = settings.worker.sweep_interval.total_seconds()
        self._settings = settings
        self._nudged = {
            lane: asyncio.Event() for lane in ("watch", "starts", "pokes", "match", "ends")
        }
        self._ended: list[str] = []
        self._swept = ""
        self.report = RelayReport()

    async def run(self) -> None:
        """Runs all lanes until it is cancelled."""
        async with asyncio.TaskGroup() as lanes:
            lanes.create_task(self._lane("watch", self.watch, self._interval))
            lanes.create_task(self._lane("starts", self.start_batch, UNWATCHED_INTERVAL))
            lanes.create_task(self._lane("pokes", self.poke_batch, UNWATCHED_INTERVAL))
            lanes.create_task(self._lane("match", self.match_batch, UNWATCHED_INTERVAL))
            lanes.create_task(self._lane("again", self.again_batch, AGAIN_INTERVAL))
            lanes.create_task(self._lane("sweep", self.sweep_batch, self._sweep_interval))
            lanes.create_task(self._lane("ends", self.end_batch, LISTEN_INTERVAL))
            lanes.create_task(self._lane("listen", self._listen, LISTEN_INTERVAL))

    def nudge(self) -> None:
        """Makes the relay look at once; it looks by itself anyway."""
        self._nudged["watch"].set()

    def ended(self, ulid: str) -> None:
        """Has those who wait for an instance told that it has ended."""
        self._ended.append(ulid)
        self._nudged["ends"].set()

    async def _listen(self) -> bool:
        await listen(self._settings, RELAY_CHANNEL, lambda _payload: self.nudge())
        return False

    async def _lane(self, name: str, step: Callable[[], Awaitable[bool]], interval: float) -> None:
        nudged = self._nudged.get(name) or asyncio.Event()
        pause = ERROR_FIRST
        while True:
            try:
                more = await step()
            except Exception as error:
                self._failed(name, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, ERROR_MOST)
                continue
            pause = ERROR_FIRST
            if not more:
                await _either(nudged, interval)

    async def watch(self) -> bool:
        """Wakes the lanes that have something to do: one cheap query instead of one in each."""
        async with self._pool.acquire() as connection:
            inbox, events = await self._relaying.peek(connection)
        if inbox:
            self._nudged["starts"].set()
            self._nudged["pokes"].set()
        if events:
            self._nudged["match"].set()
        return False

    async def start_batch(self) -> bool:
        """Starts executions for new instances; True when more may be waiting."""
        async with self._pool.acquire() as connection:
            claims = await self._relaying.claim_starts(connection, START_BATCH)
        self.report.started += await self._each(claims, self._engine.start)
        return len(claims) == START_BATCH

    async def poke_batch(self) -> bool:
        """Pokes instances with new inbox rows; True when more may be waiting."""
        async with self._pool.acquire() as connection:
            claims = await self._relaying.claim_pokes(connection, POKE_BATCH)
        self.report.poked += await self._each(claims, self._engine.poke)
        return len(claims) == POKE_BATCH

    async def again_batch(self) -> bool:
        """Pokes instances again whose last poke led to nothing."""
        async with self._pool.acquire() as connection:
            claims = await self._relaying.claim_again(connection, POKE_BATCH)
        self.report.again += await self._each(claims, self._engine.poke)
        return len(claims) == POKE_BATCH

    async def sweep_batch(self) -> bool:
        """Pokes instances that have something overdue, whatever the engine remembers.

        What stays overdue hides nothing: a full batch is followed by what comes after it.
        """
        async with self._pool.acquire() as connection:
            claims = await self._relaying.sweep(connection, POKE_BATCH, self._swept)
        self.report.swept += await self._each(claims, self._engine.poke)
        self._swept = claims[-1].ulid if len(claims) == POKE_BATCH else ""
        return bool(self._swept)

    async def match_batch(self) -> bool:
        """Matches a batch of events; True when more may be waiting."""
        matched = await self._match()
        self.report.matched += matched
        if matched:
            self._nudged["starts"].set()
            self._nudged["pokes"].set()
        return matched > 0

    async def end_batch(self) -> bool:
        """Tells of instances that ended here."""
        ended, self._ended = self._ended, []
        if ended:
            async with self._pool.acquire() as connection:
                await tell_ended(connection, ended)
        return bool(self._ended)

    async def _each(
        self, claims: Sequence[Claim], call: Callable[[str, Labels], Awaitable[None]]
    ) -> int:
        """Calls the engine for each instance and returns how many it took.

        An instance that cannot be reached alone is poked again later. When none can be, the engine
        is down: the marks are taken back, so that all are poked soon after it has come back.

        Raises:
            Unavailable: None could be reached.
        """
        if not claims:
            return 0
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(claim: Claim) -> bool:
            async with slots:
                try:
                    await call(claim.ulid, Labels(claim.definition, claim.owner))
                except Unavailable as error:
                    self._failed("engine", error)
                    return False
            return True

        taken = sum(await asyncio.gather(*(one(claim) for claim in claims)))
        if not taken:
            ulids = [claim.ulid for claim in claims]
            async with self._pool.acquire() as connection:
                await self._relaying.release(connection, ulids)
                cancelled = await self._relaying.cancelled(connection, ulids)
            if self._settle is not None:
                for ulid in cancelled:
                    await self._settle(ulid)
            raise Unavailable(f"the engine took none of {len(claims)} pokes; trying again")
        return taken

    def _failed(self, lane: str, error: Exception) -> None:
        self.report.errors += 1
        self.report.last_error = f"{lane}: {type(error).__name__}: {error}"[:500]
        LOGGER.warning("relay lane %s: %s: %s", lane, type(error).__name__, error)


async def _either(nudged: asyncio.Event, seconds: float) -> None:
    """Waits for a nudge or for the time, whichever comes first."""
    try:
        async with asyncio.timeout(seconds):
            await nudged.wait()
    except TimeoutError:
        return
    nudged.clear()
