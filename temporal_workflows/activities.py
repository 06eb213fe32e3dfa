"""The activities: thin wrappers that turn Temporal's calls into turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import activity
from temporalio.exceptions import ApplicationError

from adapter.errors import NotFound
from adapter.execution.turn import take_turn
from adapter.records.load import NewerJournal
from temporal_workflows.contracts import NEWER_JOURNAL, NOT_FOUND, TURN_ACTIVITY, Turned

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from adapter.execution.deps import TurnDeps


class TurnActivities:
    """The turn activity of one worker process.

    Args:
        deps: What the process's turns share.
        stopping: Set when the worker shuts down; turns then return at their next boundary.
        ended: Called with the ulid of an instance that has ended.
    """

    def __init__(
        self, deps: TurnDeps, stopping: asyncio.Event, ended: Callable[[str], None]
    ) -> None:
        self._deps = deps
        self._stopping = stopping
        self._ended = ended

    @activity.defn(name=TURN_ACTIVITY)
    async def turn(self, ulid: str) -> Turned:
        """Takes one turn; only infrastructure errors leave it as exceptions, to be retried."""
        try:
            result = await take_turn(self._deps, ulid, self._stopping)
        except NewerJournal as error:
            raise ApplicationError(error.message, type=NEWER_JOURNAL, non_retryable=True) from error
        except NotFound as error:
            raise ApplicationError(error.message, type=NOT_FOUND, non_retryable=True) from error
        if result.ended:
            self._ended(ulid)
        return Turned(
            result.status,
            result.node,
            result.ended,
            result.more,
            result.delay,
            result.stuck,
        )
