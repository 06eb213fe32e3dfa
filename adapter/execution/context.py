"""What a handler is told beside its input."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson

from adapter.errors import InvalidInput
from adapter.execution.cancellation import Cancellation
from adapter.graph.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapter.execution.once import StepEffects
    from adapter.interpreter.state import Key


@dataclass(frozen=True, slots=True)
class InstanceInfo:
    """The instance that a step belongs to."""

    ulid: str
    key: str
    _trigger: Any = field(repr=False)

    @property
    def trigger(self) -> Any:
        """The payload that it was started with: a copy each time, which a handler may change."""
        return orjson.loads(orjson.dumps(self._trigger))


@dataclass(frozen=True, slots=True)
class StepInfo:
    """The step run that a handler was called for.

    Attributes:
        idempotency_key: The same for every attempt of a visit: hand it to receivers that dedupe.
    """

    id: Key
    node: str
    visit: int
    attempt: int
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A row of the host: its type and its id, as the instance's row names them."""

    type: str
    id: int | str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Actor:
    """On whose behalf a handler acts.

    Attributes:
        mode: ``system``, ``starter`` or ``owner``, as the published version says.
        reference: The starter or owner; None in mode ``system`` or where nobody is named.
    """

    mode: str
    reference: Reference | None = None


MAX_PROGRESS_BYTES = 16 * 1024
"""What a handler tells of its progress is for people to read, not for keeping results in."""


@dataclass(slots=True)
class Pulse:
    """What the handler of a queued step says while it runs; written and read by several threads.

    Attributes:
        beat: When it last said that it is alive, by the monotonic clock; None when it never did.
        progress: The JSON text that it last gave; None when there is nothing new.
    """

    beat: float | None = None
    progress: str | None = None


@dataclass(frozen=True, slots=True)
class ActionContext:
    """Given to a handler's parameter ``ctx``.

    Attributes:
        logger: Logs with the instance's ulid, node and attempt attached.
        cancelled: Set when the result is not wanted any more. A plain handler that takes long
            looks at it (``is_set()``, or ``wait(seconds)`` instead of a sleep); an async one is
            cancelled.
    """

    instance: InstanceInfo
    step: StepInfo
    actor: Actor
    subject: Reference | None
    logger: logging.LoggerAdapter[logging.Logger]
    cancelled: Cancellation = field(default_factory=Cancellation, repr=False)
    _pulse: Pulse | None = field(default=None, repr=False)
    _effects: StepEffects | None = field(default=None, repr=False)
    _connection: Any = field(default=None, repr=False)

    @property
    def connection(self) -> Any:
        """The transaction of a transactional handler, in Almanac's database.

        A SQLAlchemy ``Connection`` over psycopg for a plain handler, an ``AsyncConnection`` over
        asyncpg for an async one; begun, READ COMMITTED, and committed with the end of the step.
        The handler neither commits nor rolls back; ``begin_nested()`` is its own.

        Raises:
            InvalidInput: The action is not transactional.
        """
        if self._connection is None:
            raise InvalidInput(
                "ctx.connection is for transactional handlers: register this one with"
                " @action(..., transactional=True)"
            )
        return self._connection

    def once(
        self,
        key: str,
        function: Callable[..., Any],
        *,
        if_uncertain: Literal["fail", "run"] = "fail",
    ) -> Any:
        """Brings an effect about once in all attempts of this visit, and gives what it gave.

        A claim is committed before ``function`` is called, and its result after it; a later call
        with the same key gets the result. A result that is missing, although whoever claimed has
        gone, is *uncertain*: the effect may or may not have happened. ``"fail"`` then fails the
        step (``effect_uncertain``, not retried), so it happens at most once; ``"run"`` calls the
        function again, so it happens at least once. It happens exactly once where the receiver
        dedupes on the key that the function is given.

        A ``StepError`` out of the function says that the effect has not happened: the claim is
        taken back. After any other error it is uncertain.

        Args:
            key: Names the effect within the step; any text.
            function: Called with a key to pass on, the same in each attempt, if it has a parameter
                that must be given. In an async handler it may be async, and ``once`` is awaited.
            if_uncertain: ``"fail"`` or ``"run"``.

        Returns:
            Canonical JSON; for an async handler an awaitable of it.

        Raises:
            InvalidInput: An argument cannot be used.
            StepError: ``effect_uncertain``; ``step_timed_out``: the effect is under way elsewhere;
                ``invalid_output`` or ``output_too_large``: it happened, its value cannot be kept.
        """
        if self._effects is None:
            raise InvalidInput("ctx.once: this context belongs to no step of an instance")
        return self._effects.once(key, function, if_uncertain)

    def heartbeat(self) -> bool:
        """Says that the handler is alive; from any thread, as often as it likes.

        The worker keeps the step's lease by itself. But once a handler has called this, and its
        action or node names a heartbeat, silence for twice as long means that it hangs: the
        attempt ends as ``step_timed_out``. In a step that is not queued it says nothing.

        Returns:
            Whether the result is still wanted; False once ``cancelled`` is set.
        """
        if self._pulse is not None:
            self._pulse.beat = time.monotonic()
        return not self.cancelled.is_set()

    def progress(self, value: Any) -> None:
        """Shows how far the handler is; also a heartbeat.

        The latest value is written about once a second, for queued steps only: others are over
        before anybody could look.

        Args:
            value: JSON, at most 16 KB.

        Raises:
            InvalidValue: It is not JSON.
            InvalidInput: It is too large.
        """
        encoded = orjson.dumps(canonical(value))
        if len(encoded) > MAX_PROGRESS_BYTES:
            raise InvalidInput(
                f"progress of {len(encoded)} bytes; at most {MAX_PROGRESS_BYTES} are kept, so tell"
                " how far the step is and leave results to its output"
            )
        if self._pulse is not None:
            self._pulse.progress = encoded.decode()
        self.heartbeat()


_LOGGER = logging.getLogger("almanac.action")


def make_context(
    instance: InstanceInfo,
    step: StepInfo,
    actor: Mapping[str, Any],
    subject: Mapping[str, Any] | None,
    cancelled: Cancellation,
    pulse: Pulse | None = None,
    effects: StepEffects | None = None,
) -> ActionContext:
    """Builds the context of one attempt from the loaded instance."""
    mode = str(actor.get("mode", "system"))
    named = actor.get(mode) if mode != "system" else None
    extra = {"instance": instance.ulid, "node": step.node, "attempt": step.attempt}
    return ActionContext(
        instance,
        step,
        Actor(mode, _reference(named)),
        _reference(subject),
        logging.LoggerAdapter(_LOGGER, extra),
        cancelled,
        _pulse=pulse,
        _effects=effects,
    )


def _reference(data: Mapping[str, Any] | None) -> Reference | None:
    return None if data is None else Reference(data["type"], data["id"], data.get("key"))
