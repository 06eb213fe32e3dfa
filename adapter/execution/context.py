"""What a handler is told beside its input."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from adapter.errors import InvalidInput
from adapter.graph.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        cancelled: Set when the result is not wanted any more; a plain handler that takes long
            looks at it, an async one is cancelled.
    """

    instance: InstanceInfo
    step: StepInfo
    actor: Actor
    subject: Reference | None
    logger: logging.LoggerAdapter[logging.Logger]
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    _pulse: Pulse | None = field(default=None, repr=False)

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
    pulse: Pulse | None = None,
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
        _pulse=pulse,
    )


def _reference(data: Mapping[str, Any] | None) -> Reference | None:
    return None if data is None else Reference(data["type"], data["id"], data.get("key"))
