"""Where handlers run: async ones on a loop in a thread of its own, plain ones in threads.

Never on the worker's loop: a handler that blocks there would stop every turn of the process, its
heartbeats with Temporal included, and the server would start the same step on another worker.

And never at each other's mercy. An async handler that holds the loop up costs the others a
moment: what has not begun goes to a fresh loop, what has is given the time back, and the action
that did it has a loop and a thread for each call from then on. Plain handlers that never return
are made up for by further threads, and when there are no more, what queues behind them fails in
its time instead of waiting for ever.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from adapter.execution.attempt import GRACE, Call
from adapter.execution.lane import CANCELLED, LATE, Lane, LoopEnd
from adapter.execution.threads import Threads
from adapter.execution.watch import Watch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

LOOK_EVERY = 0.25
"""Seconds between two questions whether the loop of the async handlers answers."""

MAX_LANES = 16
"""Loops at once, blocked ones included: one more for each action that blocks, once."""

MAX_GIVEN_BACK = 30.0
"""Seconds that a handler waits for its loop to go on; then its attempt has failed."""

_LOGGER = logging.getLogger("almanac.handlers")


class HandlerRunner:
    """Runs handlers for one worker process.

    Args:
        threads: Plain handlers that may run at once.
        spare: How many more, while that many keep their threads beyond their time-out.
    """

    def __init__(self, threads: int = 32, spare: int = 32) -> None:
        self._threads = Threads(threads, spare)
        self._watch = Watch(self._look, LOOK_EVERY)
        self._lanes: dict[Lane, threading.Thread] = {}
        self._lane: Lane | None = None
        self._apart: set[str] = set()
        self._loop_ends: list[LoopEnd] = []
        self._ends: list[Callable[[], None]] = []

    def start(self) -> None:
        """Starts the threads."""
        self._lane = self._open_lane()
        self._watch.start()

    def at_end(self, end: Callable[[], None], loop_end: LoopEnd) -> None:
        """Has something done when the runner stops, and at the end of each loop of handlers."""
        self._ends.append(end)
        self._loop_ends.append(loop_end)

    def stop(self, timeout: float = 5.0) -> None:
        """Cancels what still runs and ends the threads, in bounded time.

        A handler that blocks is left behind: its thread ends with it, or with the process.

        Args:
            timeout: Seconds to wait for all threads together.
        """
        if self._lane is None:
            return
        deadline = time.monotonic() + timeout
        self._lane = None
        self._watch.stop()
        self._threads.stop()
        lanes = list(self._lanes.items())
        for lane, _ in lanes:
            lane.stop()
        for _, thread in lanes:
            thread.join(max(0.0, deadline - time.monotonic()))
        for end in self._ends:
            end()

    def submit(self, call: Call) -> None:
        """Begins a call; its end is reported through ``call.report``.

        Raises:
            RuntimeError: The runner is not started.
        """
        lane = self._lane
        if lane is None:
            raise RuntimeError("the handler runner is not started")
        if not call.action.is_async:
            self._threads.submit(call, partial(self._run_plain, call))
        elif call.action.name in self._apart:
            self._threads.submit(call, partial(self._run_apart, call))
        else:
            lane.submit(call)
            if lane.retired:
                self._move(lane)

    def cancel(self, call: Call) -> None:
        """Asks a handler to stop, and hears nothing of it any more.

        An async one is cancelled where it awaits; a plain one sees ``ctx.cancelled``.
        """
        call.ended = True
        self.ask(call)

    def ask(self, call: Call) -> None:
        """Asks a handler to stop, as ``cancel`` does, but still reports how it ended."""
        call.cancelled.set()
        if call.stop is not None:
            with suppress(RuntimeError):
                call.stop()

    def set_apart(self, action: str) -> None:
        """Gives an async action a loop and a thread for each call from now on."""
        self._apart.add(action)

    def _open_lane(self) -> Lane:
        lane = Lane(self._end_loop)
        thread = threading.Thread(target=lane.main, name="almanac-handlers", daemon=True)
        self._lanes[lane] = thread
        thread.start()
        return lane

    async def _end_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        for end in self._loop_ends:
            await end(loop)

    # Threads of plain handlers, and of async ones that have held a loop up

    def _run_plain(self, call: Call) -> None:
        if call.cancelled.is_set():
            call.fail(CANCELLED)
            return
        try:
            call.timer = self._watch.call_at(
                time.monotonic() + call.timeout, partial(self._overdue, call)
            )
            if call.action.transactional:
                assert call.transactions is not None
                call.transactions.run_plain(call)
            else:
                call.began = time.monotonic()
                call.succeed(call.action.function(**call.arguments()))
        except BaseException as error:
            call.broke(error)
        finally:
            if call.timer is not None:
                call.timer.cancel()
                call.timer = None

    def _run_apart(self, call: Call) -> None:
        lane = Lane(self._end_loop)
        # Its own timer comes first, as long as the handler lets it.
        call.timer = self._watch.call_at(
            time.monotonic() + call.timeout + LATE, partial(self._overdue, call)
        )
        try:
            lane.submit(call)
            lane.retire()
            lane.main()
        finally:
            call.timer.cancel()
            call.timer = None

    def _overdue(self, call: Call) -> None:
        """On the watch's thread: a call's time is over, unless it began late."""
        now = time.monotonic()
        if call.due > now:
            call.timer = self._watch.call_at(min(call.due, now + 1), partial(self._overdue, call))
            return
        call.cancelled.set()
        call.expire()
        self._threads.overran(call)

    # The watch

    def _look(self, late: float) -> None:
        for lane, thread in list(self._lanes.items()):
            if not thread.is_alive():
                del self._lanes[lane]
            elif lane.blocked:
                self._wait_out(lane)
            elif lane.asked is None or late > LOOK_EVERY:
                # This thread was late itself: the whole process was held up, and no handler.
                lane.ask()
            elif (hold := lane.holds()) is not None:
                lane.block(hold.call)
                self._replace(lane, hold.call, hold.place)
        for call in self._threads.stuck():
            if time.monotonic() > call.submitted + call.timeout + GRACE:
                self._threads.drop(call)
                call.expire(
                    ", nor begin: all threads are held by calls that have overrun their time-out,"
                    f" of {', '.join(self._threads.holders())}"
                )

    def _wait_out(self, lane: Lane) -> None:
        lane.account()
        culprit = lane.culprit
        if culprit is not None and time.monotonic() > culprit.due:
            culprit.cancelled.set()
            culprit.expire(", nor report it: it holds up its event loop")
        whose = f"action {culprit.action.name!r}" if culprit else "something"
        for call in list(lane.running.values()):
            if call is not culprit and call.given_back > MAX_GIVEN_BACK:
                call.cancelled.set()
                call.expire(f": {whose} holds up its event loop for good")

    def _replace(self, lane: Lane, culprit: Call | None, place: str) -> None:
        if culprit is None:
            _LOGGER.warning(
                "the event loop of the async handlers is held up at %s, by no handler that runs;"
                " the others go on with a new one",
                place,
            )
        elif culprit.action.name not in self._apart:
            self.set_apart(culprit.action.name)
            _LOGGER.warning(
                "action %r holds up the event loop of the async handlers at %s (node %r of"
                " instance %s); the others go on with a new one, and this action has a thread for"
                " each call from now on: write it as a plain function, or await what blocks",
                culprit.action.name,
                place,
                culprit.node,
                culprit.ulid,
            )
        if lane is not self._lane:
            return
        if len(self._lanes) >= MAX_LANES:
            _LOGGER.error(
                "%d event loops of async handlers are held up; async steps wait until one goes on."
                " Restart this worker",
                len(self._lanes),
            )
            return
        self._lane = self._open_lane()
        lane.retire()
        self._move(lane)

    def _move(self, lane: Lane) -> None:
        for call in lane.take_back():
            with suppress(RuntimeError):
                self.submit(call)
