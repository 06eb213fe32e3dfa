"""Commands to instances: signal, pause, resume, cancel, retry, each one inbox row.

The row is written in the caller's transaction, and the instance applies it when that has
committed. What is refused here is what the instance would refuse in any case; whatever is only
known when the instance gets to the row stands in the row's result
(``adapter.services.applying``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from adapter.errors import InvalidInput
from adapter.graph.kinds import kind_of
from adapter.records.commands import commands_of
from adapter.records.drawing import key_of
from adapter.services.joining import Joined, connection_of
from adapter.services.morphs import RefLike, as_ref, scope_of
from adapter.services.payloads import MAX_EVENT_KEY, accept_payload
from adapter.services.reading import accept_ulid, no_instance
from adapter.services.refusals import Standing, refused
from adapter.services.texts import is_printable
from adapter.services.views import ENDED, View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapter.settings import Settings

MAX_CORRELATION: Final = 191
MAX_REASON: Final = 1_000


@dataclass(frozen=True, slots=True)
class Receipt(View):
    """A command that was written.

    Attributes:
        id: The inbox row's id.
        ulid: The instance's public id.
        kind: ``signal``, ``pause``, ``resume``, ``cancel`` or ``retry``.
    """

    id: int | str
    ulid: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """In which statuses a command is taken, and which unapplied rows may lead to one of them."""

    fits: tuple[str, ...]
    unless: tuple[str, ...]


_ALIVE = ("pending", "running", "waiting", "paused")
_RULES: Final[dict[str, _Rule]] = {
    "signal": _Rule(_ALIVE, ("retry",)),
    "pause": _Rule(("pending", "running", "waiting"), ("resume", "retry")),
    "resume": _Rule(("paused",), ("pause",)),
    "cancel": _Rule(_ALIVE, ("retry",)),
    "retry": _Rule(("failed",), ()),
}


def signal(
    joined: Joined,
    settings: Settings,
    ulid: str,
    name: str,
    payload: dict[str, Any] | None = None,
    *,
    correlation: str | None = None,
    sender: RefLike | None = None,
) -> Receipt:
    """Sends a signal to an instance, which keeps it until a step waits for it.

    Signals of one name are consumed in the order of their rows, each by one wait.

    Args:
        joined: An open connection or session; its transaction is joined, never ended.
        settings: Names, key types and limits.
        ulid: The instance's public id.
        name: What waits name.
        payload: A JSON object, whose fields waits may match on; None is the empty one.
        correlation: Only waits with the same correlation take it.
        sender: Who sends it; kept in the row.

    Raises:
        InvalidInput: The ulid, name, payload, correlation or sender cannot be used.
        NotFound: ``instance_not_found``.
        Conflict: ``ended``.
    """
    if not is_printable(name, MAX_EVENT_KEY):
        raise InvalidInput(
            f"a signal's name must be 1 to {MAX_EVENT_KEY} printable characters, not {name!r:.80}",
            code="invalid_signal",
        )
    if payload is not None and not isinstance(payload, dict):
        raise InvalidInput(
            f"the payload of signal {name!r} must be an object, not {kind_of(payload)}: waits"
            " match on its fields",
            code="invalid_payload",
        )
    text = accept_payload(payload, settings, name=f"the payload of signal {name!r}") or "{}"
    told: dict[str, Any] = {"name": name, "payload": orjson.Fragment(text)}
    if correlation is not None:
        if not is_printable(correlation, MAX_CORRELATION):
            raise InvalidInput(
                f"a correlation must be 1 to {MAX_CORRELATION} printable characters, not"
                f" {correlation!r:.80}",
                code="invalid_correlation",
            )
        told["correlation"] = correlation
    return _put(joined, settings, ulid, "signal", told, sender)


def pause(
    joined: Joined,
    settings: Settings,
    ulid: str,
    *,
    reason: str | None = None,
    sender: RefLike | None = None,
) -> Receipt:
    """Pauses an instance: the step that runs goes on to its end, no other one begins.

    Args:
        joined: As for ``signal``.
        settings: Names and key types.
        ulid: The instance's public id.
        reason: For people, kept in the row: up to 1,000 printable characters.
        sender: Who sends it; kept in the row.

    Raises:
        InvalidInput: The ulid, reason or sender cannot be used.
        NotFound: ``instance_not_found``.
        Conflict: ``already_paused``, ``ended``.
    """
    return _put(joined, settings, ulid, "pause", _reason(reason), sender)


def resume(
    joined: Joined, settings: Settings, ulid: str, *, sender: RefLike | None = None
) -> Receipt:
    """Lets a paused instance go on; what became due or came in meanwhile is acted on then.

    Raises:
        InvalidInput: The ulid or sender cannot be used.
        NotFound: ``instance_not_found``.
        Conflict: ``not_paused``, ``ended``.
    """
    return _put(joined, settings, ulid, "resume", {}, sender)


def cancel(
    joined: Joined,
    settings: Settings,
    ulid: str,
    *,
    reason: str | None = None,
    sender: RefLike | None = None,
) -> Receipt:
    """Cancels an instance and the ones that it waits for, also before a worker has begun it.

    A step that runs is asked to stop. Arguments and errors are those of ``pause``, but for
    ``already_paused``: a paused instance can be cancelled.
    """
    return _put(joined, settings, ulid, "cancel", _reason(reason), sender)


def retry(
    joined: Joined, settings: Settings, ulid: str, *, sender: RefLike | None = None
) -> Receipt:
    """Tries a failed instance again from the step that failed; what succeeded is not repeated.

    Raises:
        InvalidInput: The ulid or sender cannot be used.
        NotFound: ``instance_not_found``.
        Conflict: ``not_failed``.
    """
    return _put(joined, settings, ulid, "retry", {}, sender)


def _put(
    joined: Joined,
    settings: Settings,
    ulid: str,
    kind: str,
    payload: Mapping[str, Any],
    sender: RefLike | None,
) -> Receipt:
    connection, known, rule = connection_of(joined), accept_ulid(ulid), _RULES[kind]
    by = as_ref(sender, "sender", settings.key_type)
    row = commands_of(settings).put(
        connection,
        ulid=known,
        kind=kind,
        payload=orjson.dumps(payload).decode(),
        sender=None if by is None else scope_of(by),
        fits=rule.fits,
        unless=rule.unless,
    )
    if row is None:
        raise no_instance(known)
    if row.id is None:
        standing = Standing(row.status, row.ended_at, row.failure_code)
        raise refused(known, kind, _why(kind, row.status), standing)
    return Receipt(key_of(row.id), known, kind)


def _why(kind: str, status: str) -> str:
    if kind == "retry":
        return "not_failed"
    if status in ENDED:
        return "ended"
    return "already_paused" if kind == "pause" else "not_paused"


def _reason(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    if not is_printable(text, MAX_REASON):
        raise InvalidInput(
            f"a reason must be 1 to {MAX_REASON} printable characters", code="invalid_reason"
        )
    return {"reason": text}
