"""An engine in memory: drives instances as the Temporal workflow does, without Temporal.

For tests and for trying things out. It forgets everything when the process ends, which is all
right: the record does not depend on what an engine remembers.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from adapter.engine.protocol import Execution

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from adapter.engine.protocol import Labels

LOGGER = logging.getLogger("almanac.engine")


class Turned(Protocol):
    """What the engine has to know of a turn; see ``adapter.execution.turned.TurnResult``."""

    @property
    def ended(self) -> bool: ...  # noqa: D102
    @property
    def more(self) -> bool: ...  # noqa: D102
    @property
    def delay(self) -> float | None: ...  # noqa: D102
    @property
    def stuck(self) -> bool: ...  # noqa: D102


class MemoryEngine:
    """Runs one task per poked instance.

    Args:
        turn: Takes one turn of an instance.
        idle: Seconds to wait after a turn that could not do what was due.
    """

    def __init__(self, turn: Callable[[str], Awaitable[Turned]], *, idle: float = 0.2) -> None:
        self._turn = turn
        self._idle = idle
        self._pokes: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._labels: dict[str, Labels | None] = {}
        self._known: dict[str, Execution] = {}

    async def start(self, ulid: str, labels: Labels | None = None) -> None:
        """See ``Engine.start``."""
        await self.poke(ulid, labels)

    async def poke(self, ulid: str, labels: Labels | None = None) -> None:
        """See ``Engine.poke``."""
        self._pokes.setdefault(ulid, asyncio.Event()).set()
        if ulid not in self._tasks:
            self._labels[ulid] = labels
            self._known[ulid] = Execution(ulid, "open", _now(), None)
            self._tasks[ulid] = asyncio.create_task(self._drive(ulid))

    def labelled(self, labels: Labels) -> list[str]:
        """Returns the instances that are being driven under these labels, sorted."""
        return sorted(ulid for ulid, known in self._labels.items() if known == labels)

    async def listed(self, *, closed_since: datetime | None = None) -> AsyncIterator[Execution]:
        """See ``Executions.listed``."""
        for one in sorted(self._known.values(), key=lambda known: known.started_at, reverse=True):
            if one.open if closed_since is None else one.closed_at and one.closed_at > closed_since:
                yield one

    async def describe(self, ulid: str) -> Execution | None:
        """See ``Executions.describe``."""
        return self._known.get(ulid)

    async def polled_at(self) -> datetime | None:
        """See ``Executions.polled_at``: there are no workers that would ask."""
        return None

    async def terminate(self, ulid: str) -> None:
        """Ends an execution by hand, whatever its instance is doing."""
        task = self._tasks.pop(ulid)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del self._labels[ulid], self._pokes[ulid]
        self._closed(ulid, "terminated")

    async def close(self) -> None:
        """Forgets everything, as a wiped server would."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._pokes.clear()
        self._labels.clear()
        self._known.clear()

    def _closed(self, ulid: str, status: str) -> None:
        self._known[ulid] = Execution(ulid, status, self._known[ulid].started_at, _now())

    async def _drive(self, ulid: str) -> None:
        poked = self._pokes[ulid]
        while True:
            poked.clear()
            try:
                turned = await self._turn(ulid)
            except Exception as error:
                LOGGER.warning("turn of %s: %s: %s", ulid, type(error).__name__, error)
                await asyncio.sleep(self._idle)
                continue
            if turned.ended and not poked.is_set():
                # No await between this look and the forgetting: a poke starts a new task.
                del self._tasks[ulid], self._labels[ulid]
                self._closed(ulid, "completed")
                return
            if turned.more and not turned.stuck:
                continue
            delay = self._idle if turned.stuck else turned.delay
            try:
                async with asyncio.timeout(delay):
                    await poked.wait()
            except TimeoutError:
                continue


def _now() -> datetime:
    return datetime.now(UTC)
