"""One attempt of a handler: what it is called with, how long it may take, how it ended."""

from __future__ import annotations

import logging
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from adapter.errors import StepError
from adapter.execution.cancellation import Cancellation
from adapter.execution.door import accept_output, as_failure, split_outcome
from adapter.interpreter.events import Failure, Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapter.execution.context import ActionContext
    from adapter.execution.registry import Action
    from adapter.execution.transactions import Transactions
    from adapter.execution.watch import Timer
    from adapter.interpreter.state import Key

GRACE = 1.0
"""Seconds a handler may overrun its time-out before its turn stops waiting for its report."""

MAX_TOLD = 10_000
"""Characters of a traceback that go into the log, its end."""

_LOGGER = logging.getLogger("almanac.action")


@dataclass(slots=True, eq=False)
class Call:
    """One attempt to run.

    Attributes:
        ulid: The instance.
        number: Which attempt of its visit it is, from 1.
        context: What the handler is told; None for one that does not ask.
        timeout: Seconds, counted from ``began``.
        report: Called with how it ended, on the thread of the handler or of the watch. A second
            report may follow when two threads find an end at once; the first one counts.
        transactions: Where a transactional handler gets its connection.
        repeated: Whether an attempt of the same visit has failed before.
        cancelled: Set when its result is not wanted any more; the context has the same.
        submitted: When it was handed to the runner, by the monotonic clock.
        began: When the handler began to run; None while it still queues.
        given_back: Seconds in which another handler held up its loop; they do not count.
        stop: Asks the handler to stop, once it runs; from any thread.
        ticket: Taken by whoever begins the handler, so that only one loop does.
        timer: The watch's, where the handler keeps a thread busy.
    """

    step: Key
    token: str
    ulid: str
    node: str
    number: int
    action: Action
    values: Mapping[str, Any]
    context: ActionContext | None
    timeout: float
    max_output_bytes: int
    report: Callable[[Finished], None]
    transactions: Transactions | None = None
    repeated: bool = False
    cancelled: Cancellation = field(default_factory=Cancellation)
    submitted: float = field(default_factory=time.monotonic)
    began: float | None = None
    given_back: float = 0.0
    ended: bool = False
    stop: Callable[[], object] | None = None
    ticket: list[None] = field(default_factory=lambda: [None])
    timer: Timer | None = None

    @property
    def due(self) -> float:
        """When its time is over, by the monotonic clock; never while it has not begun."""
        if self.began is None:
            return float("inf")
        return self.began + self.timeout + self.given_back

    def arguments(self, context: ActionContext | None = None) -> dict[str, Any]:
        """What the handler is called with; runs validators of the host.

        Args:
            context: Instead of the call's own.

        Raises:
            StepError: ``invalid_input``.
        """
        arguments = self.action.bind(self.values)
        if self.action.takes_context:
            arguments["ctx"] = context or self.context
        return arguments

    def context_with(self, connection: Any) -> ActionContext:
        """The context of a transactional handler, which always asks for it."""
        assert self.context is not None
        return replace(self.context, _connection=connection)

    def finished(self, value: Any) -> Finished:
        """The success that a handler's return value stands for.

        Raises:
            StepError: It cannot be kept.
        """
        outcome, output = split_outcome(self.node, value)
        output = accept_output(self.node, output, self.max_output_bytes)
        return Finished(self.step, self.token, output, outcome=outcome)

    def succeed(self, value: Any) -> None:
        """Reports what the handler returned, or that it cannot be kept."""
        try:
            finished = self.finished(value)
        except StepError as error:
            self.broke(error)
            return
        self.end(finished)

    def broke(self, error: BaseException) -> None:
        """Reports what the handler raised, and leaves its traceback in the log."""
        if not self.ended:
            # A log handler of the host that fails must not take the report with it.
            with suppress(Exception):
                self._log(error)
        self.fail(as_failure(error))

    def expire(self, more: str = "") -> None:
        """Reports that its time is over."""
        message = f"node {self.node!r} did not end within {self.timeout:g} s{more}"
        self.fail(Failure("step_timed_out", message, retryable=True))

    def fail(self, failure: Failure) -> None:
        """Reports a failure; what comes after the first end (a late return) is dropped."""
        self.end(Finished(self.step, self.token, failure=failure))

    def end(self, finished: Finished) -> bool:
        """Reports an end; False when one was reported before."""
        if self.ended:
            return False
        self.ended = True
        self.report(finished)
        return True

    def _log(self, error: BaseException) -> None:
        level = logging.DEBUG if self.repeated else logging.WARNING
        if _LOGGER.isEnabledFor(level):
            # As text that any stream takes: a message may hold what has no encoding.
            told = "".join(traceback.format_exception(error)).rstrip()
            _LOGGER.log(
                level,
                "action %r failed at node %r, attempt %d, of instance %s\n%s",
                self.action.name,
                self.node,
                self.number,
                self.ulid,
                told[-MAX_TOLD:].encode("utf-8", "backslashreplace").decode(),
                extra={"instance": self.ulid, "node": self.node, "attempt": self.number},
            )
