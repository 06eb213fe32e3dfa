"""Transactional handlers: what one writes and the end of its step are committed together.

The handler works in a transaction of its own, which locks nothing of the instance. When it has
returned, it offers that transaction to whoever waits for its step: a turn, or the activity of a
queued step. That one decides as always, but appends through the handler's connection and then has
it commit, so the append is the last statement before the commit. When somebody else's entry came
first, it folds that and appends again in the same transaction. Everything is rolled back only when
the step is not its own any more. So the writes are there exactly once, if the step succeeded.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from adapter.errors import AlmanacError
from adapter.interpreter.events import Finished
from adapter.records.connection import AsyncpgRoom, PsycopgRoom
from adapter.records.handler_engines import allow_commit, open_async_engine, open_engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from sqlalchemy import Connection, Engine, Transaction
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction

    from adapter.execution.attempt import Call
    from adapter.settings import Settings

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


class Offer:
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

    def _put(self, job: _Job) -> None:
        raise NotImplementedError

    def _take(self) -> _Job | None:
        """The next job, if there is one."""
        raise NotImplementedError

    def _fetchrow(self, query: str, *args: Any) -> Any:
        raise NotImplementedError

    def _commit(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Offered(Finished):
    """A transactional handler came to its end, with its transaction still open."""

    offer: Offer | None = None


class _PlainOffer(Offer):
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


class _AsyncOffer(Offer):
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


class Transactions:
    """The connections of a process's transactional handlers; made when they are first needed.

    Args:
        settings: ``worker.transactions`` bounds each engine.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._async: dict[asyncio.AbstractEventLoop, AsyncEngine] = {}

    def close(self) -> None:
        """Closes the connections of plain handlers that are not in use."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    async def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes the connections of a loop that ends."""
        engine = self._async.pop(loop, None)
        if engine is not None:
            await engine.dispose()

    def run_plain(self, call: Call) -> None:
        """Runs a plain handler in a transaction, and ends that as it is told to.

        Returns when the transaction is over. The handler's time begins when it has a connection.

        Raises:
            BaseException: What the handler raised; its writes are rolled back.
        """
        with self._transaction() as (connection, transaction):
            if call.ended:
                return
            call.began = time.monotonic()
            context = call.context_with(connection)
            value = call.action.function(**call.arguments(context))
            finished = call.finished(value)
            _check(transaction)
            offer = _PlainOffer(connection)
            if call.timer is not None:
                call.timer.cancel()
            if call.end(_offered(finished, offer)):
                offer.serve()

    async def run_async(self, call: Call, arm: Callable[[Call], asyncio.TimerHandle]) -> None:
        """As ``run_plain``, for async handlers.

        Args:
            call: The attempt.
            arm: Begins its time.

        Raises:
            BaseException: What the handler raised; its writes are rolled back.
        """
        async with self._async_transaction() as (connection, transaction):
            if call.ended:
                return
            timer = arm(call)
            try:
                context = call.context_with(connection)
                value = await call.action.function(**call.arguments(context))
                finished = call.finished(value)
            finally:
                timer.cancel()
            _check(transaction)
            offer = _AsyncOffer(connection, asyncio.get_running_loop())
            if call.end(_offered(finished, offer)):
                await offer.serve()

    @contextmanager
    def _transaction(self) -> Iterator[tuple[Connection, Transaction]]:
        with self._lock:
            if self._engine is None:
                self._engine = open_engine(self._settings)
            engine = self._engine
        with engine.connect() as connection:
            # Closing rolls back what was not committed.
            try:
                yield connection, connection.begin()
            finally:
                if self._engine is not engine:
                    # The engine was closed meanwhile; its pool takes nothing back.
                    connection.detach()

    @asynccontextmanager
    async def _async_transaction(self) -> AsyncIterator[tuple[AsyncConnection, AsyncTransaction]]:
        loop = asyncio.get_running_loop()
        engine = self._async.get(loop)
        if engine is None:
            engine = self._async[loop] = open_async_engine(self._settings)
        async with engine.connect() as connection:
            yield connection, await connection.begin()


def _offered(finished: Finished, offer: Offer) -> Offered:
    return Offered(
        finished.step, finished.token, finished.output, outcome=finished.outcome, offer=offer
    )


class TransactionEnded(AlmanacError):
    """A transactional handler ended its transaction itself."""

    code = "step_failed"


def _check(transaction: Transaction | AsyncTransaction) -> None:
    if not transaction.is_active:
        raise TransactionEnded(
            "the handler ended its transaction, which ends with its step. Use"
            " connection.begin_nested() for what may fail alone, and raise an error to fail"
        )
