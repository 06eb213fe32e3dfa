"""Folded instances kept in memory: saves reading, decides nothing.

An item is taken out while a turn works on it and put back at its end, so two turns of one
instance never share one. What is in it is only ever as old as its ``state.seq``; the load brings
what came after.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapter.interpreter.state import Key, State, Wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.interpreter.events import StoredEvent


@dataclass(slots=True)
class Folded:
    """What this process knows of one instance.

    Attributes:
        state: The fold of its journal.
        writer: Who wrote the last entry of the fold.
        outputs: Outputs of finished step runs that were at hand.
        looked: Waits for which stored events were looked for after they had been committed.
        stored: Events found ahead of the waits that will take them, by event key and match.
        cut: Keys of ``stored`` whose last page was full: there may be more events beyond.
        snapshot_seq: Where the last snapshot entry stands, as far as this process knows.
    """

    state: State = field(default_factory=State)
    writer: str | None = None
    outputs: dict[Key, Any] = field(default_factory=dict)
    looked: set[Key] = field(default_factory=set)
    stored: dict[Any, list[StoredEvent]] = field(default_factory=dict)
    cut: set[Any] = field(default_factory=set)
    snapshot_seq: int = 0

    def stored_for(self, wait: Wait) -> Sequence[StoredEvent]:
        """Events at hand that ``wait`` may take, lowest id first."""
        return self.stored.get(wait_key(wait), ())

    def forget(self) -> None:
        """Drops what the state no longer refers to."""
        kept = {result.step for result in self.state.results.values()}
        if len(self.outputs) > 2 * len(kept) + 8:
            self.outputs = {k: v for k, v in self.outputs.items() if k in kept}
        self.looked &= self.state.waits.keys()
        for key, events in list(self.stored.items()):
            left = [event for event in events if event.id not in self.state.consumed]
            if left:
                self.stored[key] = left
            else:
                del self.stored[key]
                self.cut.discard(key)


def wait_key(wait: Wait) -> Any:
    """What waits have in common that may take the same events."""
    return (wait.event, repr(sorted((wait.match or {}).items())))


class FoldCache:
    """The least recently used instances go first.

    Args:
        limit: Instances kept; 0 keeps none.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[str, Folded] = OrderedDict()

    def take(self, ulid: str) -> Folded:
        """Takes an instance out; an empty one if it is not known."""
        return self._items.pop(ulid, None) or Folded()

    def put(self, ulid: str, folded: Folded) -> None:
        """Puts an instance back."""
        folded.forget()
        self._items[ulid] = folded
        self._items.move_to_end(ulid)
        while len(self._items) > self._limit:
            self._items.popitem(last=False)
