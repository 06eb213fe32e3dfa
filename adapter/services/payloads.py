"""The door for what callers send: canonical JSON of bounded size, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adapter.errors import InvalidInput, InvalidValue
from adapter.graph.canonical import canonical
from adapter.graph.kinds import kind_of
from adapter.services.texts import is_printable

if TYPE_CHECKING:
    from adapter.settings import Settings

MAX_EVENT_KEY = 191


def accept_payload(value: Any, settings: Settings, *, name: str = "payload") -> str | None:
    """Returns the text of the payload's canonical form; None for None.

    Args:
        value: JSON values: dicts, lists, text, numbers, booleans, None.
        settings: ``limits.max_payload_bytes`` bounds the text.
        name: What the payload is called in messages.

    Raises:
        InvalidValue: It cannot be kept as JSON; ``details["pointer"]`` names the place.
        InvalidInput: It is too large (``payload_too_large``).
    """
    if value is None:
        return None
    try:
        made = orjson.dumps(canonical(value))
    except InvalidValue as error:
        raise InvalidValue(f"{name}: {error.message}", **error.details) from None
    most = settings.limits.max_payload_bytes
    if len(made) > most:
        raise InvalidInput(
            f"{name} has {len(made)} bytes, the limit is {most} (limits.max_payload_bytes); store"
            " it elsewhere and send a reference",
            code="payload_too_large",
            bytes=len(made),
            limit=most,
        )
    return made.decode()


def accept_event_key(key: Any) -> str:
    """Returns the key of an event.

    Raises:
        InvalidInput: ``invalid_event_key``.
    """
    if not is_printable(key, MAX_EVENT_KEY):
        raise InvalidInput(
            f"an event's key must be 1 to {MAX_EVENT_KEY} printable characters, not {key!r:.80}",
            code="invalid_event_key",
        )
    return key


def accept_event(key: Any, payload: Any, settings: Settings) -> tuple[str, str]:
    """Returns an event's key and the text of its payload, an object.

    Raises:
        InvalidInput: The key is no event key (``invalid_event_key``), the payload no object
            (``invalid_payload``) or too large.
        InvalidValue: The payload cannot be kept as JSON.
    """
    accept_event_key(key)
    if not isinstance(payload, dict):
        raise InvalidInput(
            f"the payload of event {key!r} must be an object, not {kind_of(payload)}: waits"
            " match on its fields",
            code="invalid_payload",
        )
    text = accept_payload(payload, settings, name=f"the payload of event {key!r}")
    return key, text or "{}"
