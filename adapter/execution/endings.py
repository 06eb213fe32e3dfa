"""Brings the ends of other instances to the waits that name them.

An end is read from the other instance's own row. A wait is looked up as a whole once it has been
committed; after that, what is written into the inbox by an end says whom to look up again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapter.execution.cache import Folded
    from adapter.records.awaited import Awaited
    from adapter.records.connection import Connection


class Endings:
    """The looks of one turn, kept in what the process knows of its instance.

    Args:
        awaited: Asks the record.
        folded: The instance; its state tells which waits are open.
        owner_scope: The instance's owner.
    """

    def __init__(self, awaited: Awaited, folded: Folded, owner_scope: str) -> None:
        self._awaited = awaited
        self._folded = folded
        self._scope = owner_scope

    async def fresh(self, connection: Connection) -> bool:
        """Looks up whom new waits name, and whose end was heard of.

        Args:
            connection: Outside a transaction, so that the look comes after the waits' commit.

        Returns:
            Whether an end was found that was not at hand before.
        """
        folded = self._folded
        wanted: set[str] = set()
        for wait in folded.state.waits.values():
            if not wait.instances:
                continue
            unnoted = set(wait.instances) - wait.statuses.keys()
            wanted |= unnoted & folded.heard if wait.id in folded.asked else unnoted
            folded.asked.add(wait.id)
        folded.heard.clear()
        if not wanted:
            return False
        found = await self._awaited.ended(connection, sorted(wanted), self._scope)
        fresh = found.keys() - folded.ended.keys()
        folded.ended |= found
        return bool(fresh)
