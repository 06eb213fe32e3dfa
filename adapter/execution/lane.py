"""A thread with an event loop on which async handlers run, and what may hold it up.

Handlers share a loop, so one that blocks stops all of them: their steps, and their timers. The
lane can be asked whether it still answers, tells whose code is running if it does not, and gives
the others the time back that they lost.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from adapter.interpreter.events import Failure

if TYPE_CHECKING:
    from types import FrameType

    from adapter.execution.attempt import Call

LATE = 0.1
"""Seconds by which a timer may be late before the loop counts as held up."""

LEAVING = 1.0
"""Seconds that cancelled handlers have to end when the lane is stopped."""

SAMPLES = 3
SAMPLE_PAUSE = 0.02
"""A loop is held up if the same code runs each time: a loop with much to do is only slow."""

CANCELLED = Failure("step_failed", "the handler was cancelled", retryable=True)

LoopEnd = Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]

_CURRENT: ContextVar[Call | None] = ContextVar("almanac_handler", default=None)


@dataclass(frozen=True, slots=True)
class Hold:
    """What holds a loop up.

    Attributes:
        call: The handler that it belongs to; None when no handler's task is running.
        place: Where it is: file, line and function.
    """

    call: Call | None
    place: str


class _Task(asyncio.Task[Any]):
    """A task that a handler has made: knows the handler."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.call = _CURRENT.get()
        super().__init__(*args, **kwargs)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
    return _Task(coroutine, loop=loop, **more)


class Lane:
    """One loop; made for one thread, which runs ``main``.

    Args:
        at_end: Called on the loop when it ends, for what belongs to it.
    """

    def __init__(self, at_end: LoopEnd) -> None:
        self.loop = new_loop()
        self.loop.set_task_factory(_make_task)
        self.waiting: deque[Call] = deque()
        self.running: dict[asyncio.Task[Any], Call] = {}
        self.retired = False
        self.blocked = False
        self.culprit: Call | None = None
        self.asked: float | None = None
        self._accounted = 0.0
        self._binding: Call | None = None
        self._at_end = at_end
        self._stopping = False
        self._thread_id: int | None = None

    def submit(self, call: Call) -> None:
        """Queues a call; from any thread. A lane that has ended leaves it in ``waiting``."""
        self.waiting.append(call)
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._begin)

    def main(self) -> None:
        """Runs the loop until the lane is retired or stopped and nothing is left to do."""
        self._thread_id = threading.get_ident()
        asyncio.set_event_loop(self.loop)
        while not self._stopping:
            # A task that a handler leaves behind can stop the loop, or raise SystemExit out of it.
            with suppress(BaseException):
                self.loop.run_forever()
        with suppress(BaseException):
            self.loop.run_until_complete(self._leave())
        asyncio.set_event_loop(None)
        self.loop.close()

    def retire(self) -> None:
        """Has the loop end when its handlers have; from any thread."""
        self.retired = True
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._end_if_done)

    def stop(self) -> None:
        """Cancels all handlers and has the loop end; from any thread."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._cancel_all)

    def take_back(self) -> list[Call]:
        """Takes out the calls that have not begun; from another thread."""
        found: list[Call] = []
        with suppress(IndexError):
            while True:
                found.append(self.waiting.popleft())
        for task, call in list(self.running.items()):
            if call.began is None and call.ticket:
                with suppress(IndexError):
                    call.ticket.pop()
                    call.ticket = [None]
                    self.running.pop(task, None)
                    found.append(call)
        return found

    # What the watch asks, from its own thread

    def ask(self) -> None:
        """Asks whether the loop answers, if there is anybody who would mind if it did not."""
        if self.running or self.waiting:
            self.asked = time.monotonic()
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._answer)

    def holds(self) -> Hold | None:
        """What holds up a loop that has not answered; None when it is only slow."""
        first = self._sample()
        if first is None:
            return None
        for _ in range(SAMPLES - 1):
            time.sleep(SAMPLE_PAUSE)
            sample = self._sample()
            if self.asked is None or sample is None or sample[0] != first[0]:
                return None
        task, place = first[0][0], first[1]
        call = self.running.get(task) if task is not None else self._binding
        return Hold(call or getattr(task, "call", None), place)

    def block(self, culprit: Call | None) -> None:
        """Takes note that the loop is held up, and by whom."""
        self.blocked = True
        self.culprit = culprit
        self._accounted = self.asked or time.monotonic()
        self.account()

    def account(self) -> None:
        """Gives handlers back the time in which another one has held them up."""
        if not self.blocked:
            return
        now = time.monotonic()
        lost, self._accounted = now - self._accounted, now
        for call in list(self.running.values()):
            if call is not self.culprit and call.began is not None:
                call.given_back += lost

    def _sample(self) -> tuple[Any, str] | None:
        """The code that runs now: what tells it from other code, and where it is."""
        frame = sys._current_frames().get(self._thread_id or 0)
        task = asyncio.current_task(self.loop)
        inner, outer = _host_frames(frame)
        if inner is None:
            return None
        code = inner.f_code
        return (task, id(outer)), f"{code.co_filename}:{inner.f_lineno} in {code.co_name}"

    # On the loop

    def arm(self, call: Call) -> asyncio.TimerHandle:
        """Begins a call's time; to be called in its task."""
        now = time.monotonic()
        if call.began is None:
            call.began = now
        return self._arm(call, asyncio.current_task(self.loop), call.timeout)

    def _arm(
        self, call: Call, task: asyncio.Task[Any] | None, seconds: float
    ) -> asyncio.TimerHandle:
        due = time.monotonic() + seconds
        return self.loop.call_later(seconds, self._expire, call, task, due)

    def _expire(self, call: Call, task: asyncio.Task[Any] | None, due: float) -> None:
        if call.ended:
            return
        self.account()
        late = time.monotonic() - due
        if not call.given_back and late > LATE and call is not self.culprit:
            call.given_back = late
        left = call.due - time.monotonic()
        if left > 0.001:
            # Somebody held the loop up: that time was not this handler's.
            self._arm(call, task, left)
            return
        call.cancelled.set()
        call.expire()
        if task is not None:
            task.cancel()

    def _answer(self) -> None:
        self.account()
        self.asked = self.culprit = None
        self.blocked = False
        self._end_if_done()

    def _begin(self) -> None:
        if not self.waiting:
            return
        self._binding = call = self.waiting.popleft()
        coroutine: Any = None
        try:
            if call.ended:
                return
            if call.cancelled.is_set():
                call.fail(CANCELLED)
                return
            if not call.action.transactional:
                coroutine = call.action.function(**call.arguments())
        except BaseException as error:
            call.broke(error)
            return
        finally:
            self._binding = None
        # Made here and not by the loop, whose tasks are those of handlers.
        task = asyncio.Task(self._run(call, call.ticket, coroutine), loop=self.loop)
        self.running[task] = call
        task.add_done_callback(self._done)

    async def _run(self, call: Call, ticket: list[None], coroutine: Any) -> None:
        """Runs a handler; without a coroutine in a transaction."""
        if call.ended or not ticket:
            if coroutine is not None:
                coroutine.close()
            return
        ticket.pop()
        _CURRENT.set(call)
        task = asyncio.current_task(self.loop)
        assert task is not None
        call.stop = partial(self.loop.call_soon_threadsafe, task.cancel)
        try:
            if coroutine is None:
                assert call.transactions is not None
                await call.transactions.run_async(call, self.arm)
                return
            # The time counts from here: a handler that queued behind busy ones has not begun.
            timer = self.arm(call)
            try:
                call.succeed(await coroutine)
            finally:
                timer.cancel()
        except asyncio.CancelledError:
            call.fail(CANCELLED)
        except BaseException as error:
            call.broke(error)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.running.pop(task, None)
        if not task.cancelled():
            task.exception()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self.retired and not self.running and not self.waiting:
            self._stopping = True
            self.loop.stop()

    async def _leave(self) -> None:
        if self.running:
            # What was cancelled puts away what it holds; what takes no notice is left behind.
            await asyncio.wait(list(self.running), timeout=LEAVING)
        await self._at_end(self.loop)

    def _cancel_all(self) -> None:
        for task, call in self.running.items():
            # Unreported, so the next turn finds the attempt open and takes it over.
            call.ended = True
            task.cancel()
        self.waiting.clear()
        self._stopping = True
        self.loop.call_soon(self.loop.stop)


def _host_frames(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """The innermost and the outermost frame that the loop has called, of a thread's stack.

    Neither is there when the loop itself is at work, or waits.
    """
    inner: FrameType | None = None
    outer: FrameType | None = None
    while frame is not None and frame.f_code is not Lane.main.__code__:
        name = frame.f_globals.get("__name__", "")
        if name != "selectors" and not name.startswith("asyncio.") and name != __name__:
            inner = inner or frame
            outer = frame
        frame = frame.f_back
    return inner, outer


def new_loop() -> asyncio.AbstractEventLoop:
    """Uvloop's where there is one: it wakes from another thread at half the price."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
