"""Brings stored events to the waits that may take them, page by page.

A look finds the lowest events first and no more than a page of them. A wait takes the first one
that fits, so a page is enough, unless its condition turns all of them down: then comes the next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adapter.execution.cache import wait_key
from adapter.records.look import BATCH

if TYPE_CHECKING:
    from adapter.execution.cache import Folded
    from adapter.interpreter.events import StoredEvent
    from adapter.interpreter.state import Key, Wait
    from adapter.records.connection import Connection
    from adapter.records.look import Looker


class Looking:
    """The looks of one turn, kept in what the process knows of its instance.

    Args:
        looker: Asks the record.
        folded: The instance; its state tells which waits are open.
        owner_scope: The instance's owner.
    """

    def __init__(self, looker: Looker, folded: Folded, owner_scope: str) -> None:
        self._looker = looker
        self._folded = folded
        self._scope = owner_scope

    async def fresh(self, connection: Connection) -> bool:
        """Looks for the waits that nobody has looked for since they were committed.

        Args:
            connection: Outside a transaction, so that the look comes after the waits' commit.

        Returns:
            Whether an event was found that was not at hand before, or is to be tested again.
        """
        folded, found = self._folded, False
        for wait in list(folded.state.waits.values()):
            if wait.event is None or wait.id in folded.looked:
                continue
            passed = folded.passed.get(wait.id)
            events = await self._page(connection, wait, passed)
            folded.looked.add(wait.id)
            known = {event.id for event in folded.stored_for(wait)}
            if wait.id in folded.again:
                folded.again.discard(wait.id)
                known.clear()
            found = found or not known.issuperset(event.id for event in events)
            if passed is None:
                self._keep(folded.stored, wait_key(wait), events)
            else:
                self._keep(folded.pages, wait.id, events)
        return found

    async def further(self, connection: Connection) -> bool:
        """Looks beyond the events at hand for the waits that have turned them all down.

        Only the page that a wait has come to is kept; what is before it stays turned down.

        Returns:
            Whether there were any.
        """
        folded, found = self._folded, False
        for wait in list(folded.state.waits.values()):
            key = wait.id if wait.id in folded.pages else wait_key(wait)
            if key not in folded.cut:
                continue
            last = folded.stored_for(wait)[-1].id
            events = await self._page(connection, wait, last)
            folded.passed[wait.id] = last
            self._keep(folded.pages, wait.id, events)
            found = found or bool(events)
        return found

    def _keep(self, pages: dict[Any, list[StoredEvent]], key: Any, page: list[StoredEvent]) -> None:
        pages[key] = page
        if len(page) == BATCH:
            self._folded.cut.add(key)
        else:
            self._folded.cut.discard(key)

    async def _page(
        self, connection: Connection, wait: Wait, beyond: Key | None
    ) -> list[StoredEvent]:
        state = self._folded.state
        accept = state.accept_from
        return await self._looker.look(
            connection,
            wait,
            accept_from=accept if beyond is None else replace(accept, after=beyond),
            consumed=state.consumed,
            owner_scope=self._scope,
        )
