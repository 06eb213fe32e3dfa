"""Where handlers run: async ones on a loop in a thread of its own, plain ones in a pool of threads.

Never on the worker's loop: a handler that blocks there would stop every turn of the process, its
heartbeats with Temporal included, and the server would start the same step on another worker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
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
        timeout: Seconds.
        report: Called once, on the handler thread, with how it ended.
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
        loop = asyncio.new_event_loop()
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

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
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
        except StepError as error:
            call.fail(as_failure(error))
            return
        if call.action.takes_context:
            arguments["ctx"] = call.context
        if call.action.is_async:
            task = loop.create_task(_shielded(call, call.action.function(**arguments)))
            self._running[task] = call
            timer = loop.call_later(call.timeout, self._expire, call, task)
            task.add_done_callback(partial(self._done, timer))
            return
        pool = self._pool
        if pool is None:
            return
        future = pool.submit(_plain, call, partial(call.action.function, **arguments))
        timer = loop.call_later(call.timeout, self._expire, call, future)
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(timer.cancel))

    def _done(self, timer: asyncio.TimerHandle, task: asyncio.Task[Any]) -> None:
        timer.cancel()
        self._running.pop(task, None)
        if not task.cancelled():
            task.exception()

    def _expire(self, call: Call, running: asyncio.Task[Any] | Future[Any]) -> None:
        message = f"node {call.node!r} did not end within {call.timeout:g} s"
        call.fail(Failure("step_timed_out", message, retryable=True))
        running.cancel()


async def _shielded(call: Call, awaitable: Any) -> None:
    try:
        call.succeed(await awaitable)
    except asyncio.CancelledError:
        call.fail(Failure("step_failed", "the handler was cancelled", retryable=True))
    except BaseException as error:
        call.fail(as_failure(error))


def _plain(call: Call, function: Callable[[], Any]) -> None:
    try:
        call.succeed(function())
    except BaseException as error:
        call.fail(as_failure(error))
