"""Emitting events: a row in the caller's transaction, which a worker's relay brings to waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.errors import InvalidInput
from adapter.graph.kinds import kind_of
from adapter.records.emitted import emitted_of
from adapter.services.joining import Joined, connection_of
from adapter.services.morphs import RefLike, as_ref, scope_of
from adapter.services.payloads import accept_event
from adapter.services.starting import batches, is_listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.settings import Settings


def emit(
    joined: Joined,
    settings: Settings,
    key: str,
    payload: dict[str, Any],
    *,
    owner: RefLike | None = None,
) -> int | str:
    """Emits an event and returns its id.

    Args:
        joined: An open connection or session; its transaction is joined, never ended.
        settings: Names, key types and limits.
        key: What waits and triggers name.
        payload: A JSON object; waits match on its fields.
        owner: Whom it concerns: only that owner's instances see it. None reaches all instances,
            and starts application-wide definitions only.

    Raises:
        InvalidInput: The key, payload or owner cannot be used.
    """
    connection = connection_of(joined)
    name, text = accept_event(key, payload, settings)
    return emitted_of(settings).emit(
        connection,
        key=name,
        scope=scope_of(as_ref(owner, "owner", settings.owner_key_type)),
        payload=text,
        keep=settings.prune.events_after.total_seconds(),
    )


def emit_many(
    joined: Joined,
    settings: Settings,
    events: Sequence[tuple[str, dict[str, Any]]],
    *,
    owner: RefLike | None = None,
) -> list[int | str]:
    """Emits many events, in the order given; all of them or, when it raises, none.

    Every event is checked before the first is written. Returns the ids in the same order.

    Raises:
        InvalidInput: As ``emit``.
    """
    connection = connection_of(joined)
    if not is_listed(events):
        raise InvalidInput(
            f"events must be a list of pairs, not {kind_of(events)}", code="invalid_event"
        )
    keys, texts = list[str](), list[str | None]()
    for place, event in enumerate(events):
        name, text = accept_event(*_pair(event, place), settings)
        keys.append(name)
        texts.append(text)
    scope = scope_of(as_ref(owner, "owner", settings.owner_key_type))
    keep = settings.prune.events_after.total_seconds()
    emitted, ids = emitted_of(settings), list[int | str]()
    for batch in batches(texts):
        named = keys[len(ids) : len(ids) + len(batch)]
        payloads = [text or "{}" for text in batch]
        ids += emitted.emit_many(connection, keys=named, scope=scope, payloads=payloads, keep=keep)
    return ids


def _pair(event: Any, place: int) -> tuple[Any, Any]:
    if isinstance(event, tuple | list) and len(event) == 2:
        return event[0], event[1]
    raise InvalidInput(f"event {place} must be a pair (key, payload)", code="invalid_event")
