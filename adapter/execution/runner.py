"""Where handlers run: async ones on a loop in a thread of its own, plain ones in a pool of threads.

Never on the worker's loop: a handler that blocks there would stop every turn of the process, its
heartbeats with Temporal included, and the server would start the same step on another worker.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from adapter.errors import StepError
from adapter.execution.door import accept_output, as_failure, split_outcome
from adapter.interpreter.events import Failure, Finished

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext
    from adapter.execution.registry import Action
    from adapter.interpreter.state import Key

Report = Callable[[Finished], None]


@dataclass(slots=True)
class Call:
    """One attempt to run.

    Attributes:
        timeout: Seconds, counted from ``began``.
        report: Called once, on the handler thread, with how it ended.
        began: When the handler began to run, by the monotonic clock; None while it still queues.
    """

    step: Key
    token: str
    node: str
    action: Action
    values: Mapping[str, Any]
    context: ActionContext
    timeout: float
    max_output_bytes: int
    report: Report
    began: float | None = None
    ended: bool = False

    def fail(self, failure: Failure) -> None:
        """Reports a failure; what comes after the first end (a late return) is dropped."""
        self._end(Finished(self.step, self.token, failure=failure))

    def succeed(self, value: Any) -> None:
        """Reports what the handler returned, or that it cannot be kept."""
        try:
            outcome, output = split_outcome(self.node, value)
            output = accept_output(self.node, output, self.max_output_bytes)
        except StepError as error:
            self.fail(as_failure(error))
            return
        self._end(Finished(self.step, self.token, output, outcome=outcome))

    def _end(self, finished: Finished) -> None:
        if not self.ended:
            self.ended = True
            self.report(finished)


LATE = 0.1
"""Seconds by which a timer may be late before the loop counts as held up."""


class HandlerRunner:
    """Runs handlers for one worker process.

    Args:
        threads: Plain handlers that may run at once.
    """

    def __init__(self, threads: int = 32) -> None:
        self._threads = threads
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._running: dict[asyncio.Task[Any], Call] = {}

    def start(self) -> None:
        """Starts the handler thread."""
        loop = _new_loop()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="almanac-plain-handler")
        self._loop = loop
        self._thread = threading.Thread(
            target=self._main, args=(loop,), name="almanac-handlers", daemon=True
        )
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Cancels what still runs and ends the thread; a handler that blocks is left behind.

        Args:
            timeout: Seconds to wait for the thread.
        """
        loop, thread, pool = self._loop, self._thread, self._pool
        if loop is None or thread is None or pool is None:
            return
        self._loop = self._thread = self._pool = None
        loop.call_soon_threadsafe(self._cancel_all, loop)
        thread.join(timeout)
        pool.shutdown(wait=False, cancel_futures=True)

    def submit(self, call: Call) -> None:
        """Begins a call; its end is reported through ``call.report``.

        Raises:
            RuntimeError: The runner is not started.
        """
        if self._loop is None:
            raise RuntimeError("the handler runner is not started")
        self._loop.call_soon_threadsafe(self._begin, self._loop, call)

    def cancel(self, call: Call) -> None:
        """Asks a handler to stop, and hears nothing of it any more.

        An async one is cancelled where it awaits; a plain one sees ``ctx.cancelled``.
        """
        call.ended = True
        call.context.cancelled.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel, call)

    def ask(self, call: Call) -> None:
        """Asks a handler to stop, as ``cancel`` does, but still reports how it ended."""
        call.context.cancelled.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel, call)

    def _cancel(self, call: Call) -> None:
        for task, running in self._running.items():
            if running is call:
                task.cancel()

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while self._loop is loop:
            # A task that a handler leaves behind can stop the loop, or raise SystemExit out of it.
            with suppress(BaseException):
                loop.run_forever()
        loop.close()

    def _cancel_all(self, loop: asyncio.AbstractEventLoop) -> None:
        for task, call in self._running.items():
            # Unreported, so the next turn finds the attempt open and takes it over.
            call.ended = True
            task.cancel()
        loop.call_soon(loop.stop)

    def _begin(self, loop: asyncio.AbstractEventLoop, call: Call) -> None:
        try:
            arguments = call.action.bind(call.values)
            if call.action.takes_context:
                arguments["ctx"] = call.context
            awaitable = call.action.function(**arguments) if call.action.is_async else None
        except BaseException as error:
            call.fail(as_failure(error))
            return
        if awaitable is not None:
            task = loop.create_task(self._run(loop, call, awaitable))
            self._running[task] = call
            task.add_done_callback(self._done)
            return
        pool = self._pool
        if pool is None:
            return
        pool.submit(self._run_plain, loop, call, partial(call.action.function, **arguments))

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled():
            task.exception()

    async def _run(self, loop: asyncio.AbstractEventLoop, call: Call, awaitable: Any) -> None:
        # The time counts from here: a handler that queued behind busy ones has not begun.
        timer = self._arm(loop, call, asyncio.current_task(loop), call.timeout)
        try:
            call.succeed(await awaitable)
        except asyncio.CancelledError:
            call.fail(Failure("step_failed", "the handler was cancelled", retryable=True))
        except BaseException as error:
            call.fail(as_failure(error))
        finally:
            timer.cancel()

    def _run_plain(
        self, loop: asyncio.AbstractEventLoop, call: Call, function: Callable[[], Any]
    ) -> None:
        timer: list[asyncio.TimerHandle] = []
        loop.call_soon_threadsafe(lambda: timer.append(self._arm(loop, call, None, call.timeout)))
        try:
            call.succeed(function())
        except BaseException as error:
            call.fail(as_failure(error))
        finally:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_cancel, timer)

    def _arm(
        self,
        loop: asyncio.AbstractEventLoop,
        call: Call,
        task: asyncio.Task[Any] | None,
        seconds: float,
    ) -> asyncio.TimerHandle:
        if call.began is None:
            call.began = time.monotonic()
        return loop.call_at(
            loop.time() + seconds, self._expire, loop, call, task, loop.time() + seconds
        )

    def _expire(
        self,
        loop: asyncio.AbstractEventLoop,
        call: Call,
        task: asyncio.Task[Any] | None,
        due: float,
    ) -> None:
        late = loop.time() - due
        if late > LATE and not call.ended:
            # Somebody held the loop up: that time was not this handler's.
            self._arm(loop, call, task, late)
            return
        message = f"node {call.node!r} did not end within {call.timeout:g} s"
        call.fail(Failure("step_timed_out", message, retryable=True))
        if task is not None:
            task.cancel()


def _cancel(timers: list[asyncio.TimerHandle]) -> None:
    for timer in timers:
        timer.cancel()


def _new_loop() -> asyncio.AbstractEventLoop:
    """Uvloop's where there is one: it wakes from another thread at half the price."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
