"""An open transaction of a handler, and what its turn may ask of it.

The handler's thread or loop keeps the connection; the turn has the append run in it, and says
whether it is committed.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from adapter.errors import AlmanacError
from adapter.interpreter.events import Finished
from adapter.records.connection import AsyncpgRoom, PsycopgRoom
from adapter.records.handler_engines import allow_commit

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection

PATIENCE = 60.0
"""Seconds that a transaction is kept for the append, and an append waits for its transaction."""


class TransactionFailed(AlmanacError):
    """A statement or the commit in a handler's transaction failed.

    Attributes:
        lost: Whether its connection is gone, so that nobody knows whether it was committed.
    """

    code = "step_failed"

    def __init__(self, error: BaseException, *, lost: bool) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error
        self.lost = lost


_Job = tuple["Future[Any]", "Callable[[], Any]", bool]


class Offer(ABC):
    """A handler's open transaction, for the event loop that waits for the handler.

    What it is asked for is done where the transaction lives: on the handler's thread or loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """Runs a statement of the append.

        Raises:
            TransactionFailed: It was refused, or the transaction is gone.
        """
        return await self._ask(lambda: self._fetchrow(query, *args))

    async def commit(self) -> None:
        """Commits, and ends the transaction in any case.

        Raises:
            TransactionFailed: It was not committed, or nobody knows.
        """
        await self._ask(self._commit, last=True)

    async def rollback(self) -> None:
        """Rolls back, whatever state it is in."""
        with suppress(TransactionFailed):
            await self._ask(lambda: None, last=True)

    def abandon(self) -> None:
        """Has it rolled back, if it is still open; does not wait, and may be called twice."""
        with self._lock:
            if not self._closed:
                self._put((Future(), lambda: None, True))

    async def _ask(self, work: Callable[[], Any], *, last: bool = False) -> Any:
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise TransactionFailed(ConnectionError("the handler's thread ended"), lost=True)
            self._put((future, work, last))
        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise TransactionFailed(error, lost=True) from error

    def _close(self) -> None:
        with self._lock:
            self._closed = True
        while (job := self._take()) is not None:
            if job[0].set_running_or_notify_cancel():
                error = ConnectionError("the handler's transaction is over")
                job[0].set_exception(TransactionFailed(error, lost=True))

    @abstractmethod
    def _put(self, job: _Job) -> None:
        """Adds a job, from any thread."""

    @abstractmethod
    def _take(self) -> _Job | None:
        """The next job, if there is one."""

    @abstractmethod
    def _fetchrow(self, query: str, *args: Any) -> Any:
        """Runs a statement; where the transaction lives."""

    @abstractmethod
    def _commit(self) -> Any:
        """Commits; where the transaction lives."""


@dataclass(frozen=True, slots=True)
class Offered(Finished):
    """A transactional handler came to its end, with its transaction still open."""

    offer: Offer | None = None


class PlainOffer(Offer):
    """Served by the thread of a plain handler."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._room = PsycopgRoom(connection)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()

    def serve(self) -> None:
        """Does what it is asked for, to the end of the transaction."""
        try:
            while True:
                future, work, last = self._jobs.get(timeout=PATIENCE)
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(work())
                    except BaseException as error:
                        # Asked now: a connection that has been closed tells nothing any more.
                        future.set_exception(TransactionFailed(error, lost=self._room.broken))
                if last:
                    return
        except Empty:
            return
        finally:
            self._close()

    def _put(self, job: _Job) -> None:
        self._jobs.put(job)

    def _take(self) -> _Job | None:
        with suppress(Empty):
            return self._jobs.get_nowait()
        return None

    def _fetchrow(self, query: str, *args: Any) -> Any:
        return self._room.fetchrow(query, *args)

    def _commit(self) -> None:
        allow_commit(self._connection)
        self._connection.commit()


class AsyncOffer(Offer):
    """Served by the task of an async handler."""

    def __init__(self, connection: AsyncConnection, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._connection = connection
        self._room = AsyncpgRoom(connection)
        self._loop = loop
        self._jobs: list[_Job] = []
        self._called = asyncio.Event()

    async def serve(self) -> None:
        """Does what it is asked for, to the end of the transaction."""
        try:
            while True:
                if not self._jobs:
                    self._called.clear()
                    async with asyncio.timeout(PATIENCE):
                        await self._called.wait()
                    continue
                future, work, last = self._jobs.pop(0)
                if future.set_running_or_notify_cancel():
                    try:
                        result = work()
                        future.set_result(None if result is None else await result)
                    except BaseException as error:
                        future.set_exception(TransactionFailed(error, lost=self._room.broken))
                        if isinstance(error, asyncio.CancelledError):
                            raise
                if last:
                    return
        except TimeoutError:
            return
        finally:
            self._close()

    def _put(self, job: _Job) -> None:
        self._jobs.append(job)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._called.set)

    def _take(self) -> _Job | None:
        return self._jobs.pop(0) if self._jobs else None

    def _fetchrow(self, query: str, *args: Any) -> Any:
        return self._room.fetchrow(query, *args)

    def _commit(self) -> Any:
        allow_commit(self._connection)
        return self._connection.commit()
