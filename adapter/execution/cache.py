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
    from collections.abc import Iterable, Sequence

    from adapter.interpreter.children import Ended
    from adapter.interpreter.events import StoredEvent


ROOM = 64
"""Outputs that may always be at hand."""


@dataclass(slots=True)
class Folded:
    """What this process knows of one instance.

    Attributes:
        state: The fold of its journal.
        writer: Who wrote the last entry of the fold.
        outputs: Outputs of finished step runs that were at hand.
        looked: Waits for which stored events were looked for after they had been committed.
        stored: Events found ahead of the waits that will take them, by event key and match: one
            page, for the turn that found them.
        pages: For a wait that has turned that page down, the page that it has come to instead.
        cut: Keys of ``stored`` and ``pages`` whose page was full: there may be more beyond.
        again: Waits for which what is at hand counts as found anew.
        passed: The last event that a wait has turned down, with all before it: their payloads are
            not kept, and they are not read again.
        asked: Waits whose instances were looked up after they had been committed.
        heard: Instances whose end was told, and that have not been looked up since.
        ended: Instances that open waits name and that have ended.
        snapshot_seq: Where the last snapshot entry stands, as far as this process knows.
        room: How many outputs may be at hand before those are dropped that nothing refers to.
    """

    state: State = field(default_factory=State)
    writer: str | None = None
    outputs: dict[Key, Any] = field(default_factory=dict)
    looked: set[Key] = field(default_factory=set)
    stored: dict[Any, list[StoredEvent]] = field(default_factory=dict)
    pages: dict[Key, list[StoredEvent]] = field(default_factory=dict)
    cut: set[Any] = field(default_factory=set)
    again: set[Key] = field(default_factory=set)
    passed: dict[Key, Any] = field(default_factory=dict)
    asked: set[Key] = field(default_factory=set)
    heard: set[str] = field(default_factory=set)
    ended: dict[str, Ended] = field(default_factory=dict)
    snapshot_seq: int = 0
    room: int = ROOM

    def stored_for(self, wait: Wait) -> Sequence[StoredEvent]:
        """Events at hand that ``wait`` may take, lowest id first."""
        page = self.pages.get(wait.id)
        return self.stored.get(wait_key(wait), ()) if page is None else page

    def told_of(self, events: Sequence[Any]) -> None:
        """Has waits looked for again that were told of these events.

        A matcher tells a wait of the lowest event of its batch. One that is no higher than what
        was turned down has been committed since, or its batch has: the wait looks from the start.
        """
        self.looked.clear()
        self.pages.clear()
        lowest = min(events)
        self.passed = {wait: last for wait, last in self.passed.items() if last < lowest}

    def reconsider(self, waits: Iterable[Key]) -> None:
        """Has waits look from the start: what their conditions read has changed."""
        for wait in waits:
            self.looked.discard(wait)
            self.pages.pop(wait, None)
            self.passed.pop(wait, None)
            self.again.add(wait)

    def let_go(self, most: int) -> None:
        """Drops outputs that nothing will read again; those of a long turn would pile up.

        Args:
            most: Bytes of outputs that a join may put together. Beyond that it does without them.
        """
        if len(self.outputs) <= self.room:
            return
        state = self.state
        kept = {result.step for result in state.results.values()}
        for line in state.lines.values():
            kept |= {result.step for result in line.results.values()}
        for scope in state.scopes.values():
            kept |= {result.step for result in scope.results.values()}
            if sum(done.size for done in scope.done.values()) <= most:
                kept |= {done.step for done in scope.done.values() if done.step is not None}
        self.outputs = {key: value for key, value in self.outputs.items() if key in kept}
        self.room = 2 * len(self.outputs) + ROOM

    def forget(self) -> None:
        """Drops what the state no longer refers to, and the payloads of events.

        At the end of a turn every open wait has turned down what was at hand for it.
        """
        kept = {result.step for result in self.state.results.values()}
        if len(self.outputs) > 2 * len(kept) + 8:
            self.outputs = {k: v for k, v in self.outputs.items() if k in kept}
        self.looked &= self.state.waits.keys()
        if self.state.paused:
            # Nothing was tested.
            self.looked.clear()
        else:
            for wait in self.state.waits.values():
                if wait.id in self.looked and (events := self.stored_for(wait)):
                    self.passed[wait.id] = events[-1].id
        self.passed = {w: last for w, last in self.passed.items() if w in self.state.waits}
        self.asked &= self.state.waits.keys()
        if self.ended:
            named = {ulid for wait in self.state.waits.values() for ulid in wait.instances}
            self.ended = {ulid: end for ulid, end in self.ended.items() if ulid in named}
        self.stored.clear()
        self.pages.clear()
        self.cut.clear()
        self.again.clear()


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
