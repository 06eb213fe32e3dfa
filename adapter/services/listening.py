"""Who listens to an event: the waits and triggers of published graphs that name its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapter.records.listeners import listeners_of
from adapter.services.joining import Joined, connection_of
from adapter.services.morphs import RefLike, as_ref, scope_of
from adapter.services.payloads import accept_event_key
from adapter.services.views import View

if TYPE_CHECKING:
    from adapter.settings import Settings


@dataclass(frozen=True, slots=True)
class Listeners(View):
    """Who knows an event's key.

    Attributes:
        key: The event's key.
        waits: Wait nodes of current versions that name it, whatever else they match on.
        triggers: Definitions whose instances it starts.
        earlier: Whether a wait of some version names it, or did: instances of versions that were
            replaced go on.
        kept_for: Seconds that an event is kept for waits that open later.
    """

    key: str
    waits: int
    triggers: int
    earlier: bool
    kept_for: float

    @property
    def nobody(self) -> bool:
        """Whether no graph has ever named the key."""
        return not (self.waits or self.triggers or self.earlier)


def listeners(
    joined: Joined, settings: Settings, key: str, *, owner: RefLike | None = None
) -> Listeners:
    """Returns who listens to events with a key.

    Args:
        joined: An open connection or session.
        settings: Names and key types.
        key: The event's key.
        owner: The event's owner.

    Raises:
        InvalidInput: The key or owner cannot be used.
    """
    scope = scope_of(as_ref(owner, "owner", settings.owner_key_type))
    row = listeners_of(settings).count(
        connection_of(joined), key=accept_event_key(key), scope=scope
    )
    kept = settings.prune.events_after.total_seconds()
    return Listeners(key, row.waits, row.triggers, row.ever, kept)
