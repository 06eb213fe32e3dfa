"""Keeps the lease of a queued step while its handler runs, and writes what the handler tells."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from adapter.records.pooling import NO_DATABASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adapter.execution.context import Pulse
    from adapter.execution.deps import TurnDeps
    from adapter.interpreter.state import Key

LOGGER = logging.getLogger("almanac.queued")

TICK = 1.0
"""Seconds between two looks at what the handler has told."""


ALONE = 1.0
"""Seconds between two renewals of a step whose cancellation would be heard of in no other way."""


class Keeper:
    """Renews the lease of one step run under one token.

    While the database cannot be reached nobody can tell whether the step is still its own, so its
    handler goes on: the record takes only one result, whoever else may have begun meanwhile.

    Args:
        deps: The process's connections.
        step: The step run.
        token: Under which it runs.
        lease: Seconds.
        pulse: What the handler tells.
        doubt: Set by whoever has heard that the step may be gone.
        alone: Whether nobody would say so, and the record is to be asked all the time.
    """

    def __init__(
        self,
        deps: TurnDeps,
        step: Key,
        token: str,
        lease: float,
        pulse: Pulse,
        doubt: asyncio.Event,
        *,
        alone: bool = False,
    ) -> None:
        self._deps = deps
        self._step = step
        self._token = token
        self._lease = lease
        self._pulse = pulse
        self._doubt = doubt
        self._pause_between = min(lease / 3, ALONE) if alone else lease / 3
        self._renew_at = time.monotonic() + self._pause_between
        self.lost = False

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Keeps the lease as long as the context is open."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while not self.lost:
            await self._pause()
            doubted = self._doubt.is_set()
            self._doubt.clear()
            due = doubted or time.monotonic() >= self._renew_at
            if not due and self._pulse.progress is None:
                continue
            try:
                await self._once(due=due)
            except NO_DATABASE as error:
                LOGGER.warning("lease of step %s: %s: %s", self._step, type(error).__name__, error)
                if doubted:
                    self._doubt.set()
                    await asyncio.sleep(TICK)

    async def _once(self, *, due: bool) -> None:
        deps = self._deps
        async with deps.pool.acquire() as connection:
            if due:
                ours = await deps.leases.renew(connection, self._step, self._token, self._lease)
                self.lost = not ours
                self._renew_at = time.monotonic() + self._pause_between
            told, self._pulse.progress = self._pulse.progress, None
            if told is not None:
                await deps.progress.tell(connection, self._step, self._token, told)

    async def tell(self) -> None:
        """Writes what the handler told last, before it ends."""
        if self._pulse.progress is not None:
            await self._once(due=False)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(min(TICK, self._lease / 3)):
                await self._doubt.wait()
        except TimeoutError:
            return
