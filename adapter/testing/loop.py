"""An event loop whose time is virtual: it never waits, and nothing outside of it happens.

Callbacks run in the order in which asyncio promises to run them. What may happen in another order
in the world (requests that take their time) is ordered by the delays that the world draws.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Asleep(Exception):
    """Everybody waits for something that nobody will do."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time goes on to the next timer as soon as nothing is left to do at the present moment."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._virtual

    def _write_to_self(self) -> None:
        # Nobody sleeps in a selector that would have to be woken.
        return

    def _run_once(self) -> None:
        # asyncio's own queues: `_ready` and the heap `_scheduled`.
        loop: Any = self
        while loop._scheduled and loop._scheduled[0]._cancelled:
            heapq.heappop(loop._scheduled)._scheduled = False
        if not loop._ready:
            if loop._stopping:
                return
            if not loop._scheduled:
                raise Asleep("nothing is left to happen")
            self._virtual = max(self._virtual, loop._scheduled[0]._when)
        while loop._scheduled and loop._scheduled[0]._when <= self._virtual:
            timer = heapq.heappop(loop._scheduled)
            timer._scheduled = False
            loop._ready.append(timer)
        for _ in range(len(loop._ready)):
            handle = loop._ready.popleft()
            if not handle._cancelled:
                handle._run()


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine to its end in virtual time.

    Raises:
        Asleep: It waits for what nobody will do.
    """
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        task = loop.create_task(main)
        task.add_done_callback(lambda _: loop.stop())
        loop.run_forever()
        return task.result()
    finally:
        left = asyncio.all_tasks(loop)
        for one in left:
            one.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
