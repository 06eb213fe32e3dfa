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
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from adapter.errors import AlmanacError
from adapter.execution.offers import AsyncOffer, Offer, Offered, PlainOffer
from adapter.records.handler_engines import open_async_engine, open_engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from sqlalchemy import Connection, Engine, Transaction
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction

    from adapter.execution.attempt import Call
    from adapter.interpreter.events import Finished
    from adapter.settings import Settings


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
            offer = PlainOffer(connection)
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
            offer = AsyncOffer(connection, asyncio.get_running_loop())
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
