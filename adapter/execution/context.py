"""What a handler is told beside its input."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

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


_LOGGER = logging.getLogger("almanac.action")


def make_context(
    instance: InstanceInfo,
    step: StepInfo,
    actor: Mapping[str, Any],
    subject: Mapping[str, Any] | None,
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
    )


def _reference(data: Mapping[str, Any] | None) -> Reference | None:
    return None if data is None else Reference(data["type"], data["id"], data.get("key"))
