"""Calls to the engine from code that is not asynchronous, each with a deadline.

They run on an event loop in a thread of their own, so that whoever calls may have a loop, too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from adapter.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from adapter.engine.protocol import Engine, Executions
    from adapter.settings import Settings

    T = TypeVar("T")
    Opened = tuple[Engine, Executions]

Opener = Callable[["Settings", float], AbstractAsyncContextManager["Opened"]]
"""Connects to an engine, given the seconds that a call may take."""


class Asking:
    """An engine that is asked now and then.

    Args:
        settings: Name it.
        seconds: What one call may take.
        opener: Connects; by default to Temporal.

    Raises:
        Misconfigured, Unavailable: On entering: it cannot be reached.
    """

    def __init__(self, settings: Settings, seconds: float, opener: Opener | None = None) -> None:
        self._settings = settings
        self._seconds = seconds
        self._opener = opener
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="almanac-asking", daemon=True
        )
        self._opened: AbstractAsyncContextManager[Opened] | None = None
        self._parts: Opened | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._parts = self._run(self._open(), 3 * self._seconds)
        except BaseException:
            self._opened = None
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._opened is not None:
                self._run(self._opened.__aexit__(None, None, None), self._seconds)
        finally:
            self._stop()

    def ask(
        self, call: Callable[[Engine, Executions], Coroutine[Any, Any, T]], seconds: float
    ) -> T:
        """Runs a coroutine of the engine's, and returns what it returns.

        What is asked may be asked twice: a server under load may be late once.

        Raises:
            Unavailable: The engine does not answer, or not in time.
        """
        assert self._parts is not None
        try:
            return self._run(call(*self._parts), seconds)
        except Unavailable:
            return self._run(call(*self._parts), seconds)

    async def _open(self) -> Opened:
        opener = self._opener
        if opener is None:
            from adapter.engine.executions import open_temporal

            opener = open_temporal
        try:
            self._opened = opener(self._settings, self._seconds)
            return await self._opened.__aenter__()
        except Unavailable:
            self._opened = opener(self._settings, self._seconds)
            return await self._opened.__aenter__()

    def _run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        async def limited() -> T:
            async with asyncio.timeout(seconds):
                return await work

        future = asyncio.run_coroutine_threadsafe(limited(), self._loop)
        try:
            return future.result()
        except TimeoutError:
            raise Unavailable(
                f"the engine did not answer in {seconds:g} s", code="temporal_unavailable"
            ) from None
        finally:
            future.cancel()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
