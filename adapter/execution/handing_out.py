"""Hands queued steps out beside a turn whose handlers take their time.

A few at once and not many in all: it spares steps the wait for the turn's end, and must not keep
the turn from anything. What is not handed out leaves with that end.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from adapter.execution.turned import Queued

AT_ONCE = 8
MOST = 64
"""Steps that one turn hands out."""


class HandOuts:
    """The hand-outs of one turn.

    Args:
        hand_out: Has one step run at once and says whether it could; None where nothing can.
        ulid: The instance.
        known: The queued steps that the driver sees to; those handed out are added.
    """

    def __init__(
        self,
        hand_out: Callable[[str, str, str], Awaitable[bool]] | None,
        ulid: str,
        known: set[str],
    ) -> None:
        self._hand_out = hand_out
        self._ulid = ulid
        self._known = known
        self._tried: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self, queued: Iterable[Queued]) -> None:
        """Begins to hand out what has not been tried, unless that is under way."""
        if self._hand_out is None or (self._task is not None and not self._task.done()):
            return
        seen = self._known | self._tried
        room = min(AT_ONCE, MOST - len(self._tried))
        new = list(islice((one for one in queued if one.step not in seen), room))
        if not new:
            return
        self._tried |= {one.step for one in new}
        self._task = asyncio.create_task(self._all(new, self._hand_out))

    def close(self) -> None:
        """Stops it; what Temporal has taken already is harmless."""
        if self._task is not None:
            self._task.cancel()

    async def _all(
        self, steps: list[Queued], hand_out: Callable[[str, str, str], Awaitable[bool]]
    ) -> None:
        taken = await asyncio.gather(
            *(hand_out(self._ulid, one.step, one.queue) for one in steps), return_exceptions=True
        )
        for one, done in zip(steps, taken, strict=True):
            if done is True:
                self._known.add(one.step)
            else:
                # The engine has trouble of its own.
                self._hand_out = None
