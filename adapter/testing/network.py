"""What lies between a process and the record: time, and now and then a broken connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_T = TypeVar("_T")


@dataclass(slots=True)
class Trouble:
    """How often things go wrong, as probabilities.

    Attributes:
        broken: A connection breaks in a call: half of the time before it took effect.
        slow: A call takes seconds instead of milliseconds.
        crash: A process dies in a call.
    """

    broken: float = 0.02
    slow: float = 0.02
    crash: float = 0.004


class Dead(BaseException):
    """The process is gone; whatever it was about to do does not happen."""


class Network:
    """The way from one process to the record.

    Args:
        chance: The simulation's only source of chance.
        trouble: How often things go wrong.
        crash: Kills the process.
    """

    def __init__(self, chance: random.Random, trouble: Trouble, crash: Callable[[], None]) -> None:
        self._chance = chance
        self._trouble = trouble
        self._crash = crash
        self.dead = False

    async def ask(self, operation: Callable[[], _T]) -> _T:
        """Has the record do something.

        Raises:
            ConnectionError: The connection broke, before or after the record did it.
            Dead: The process died meanwhile.
        """
        await self._travel()
        if self._chance.random() < self._trouble.broken:
            if self._chance.random() < 0.5:
                raise ConnectionError("the connection broke before the statement")
            operation()
            await self._travel()
            raise ConnectionError("the connection broke after the commit")
        done = operation()
        await self._travel()
        return done

    async def _travel(self) -> None:
        chance, trouble = self._chance, self._trouble
        slow = chance.random() < trouble.slow
        await asyncio.sleep(chance.uniform(0.5, 4.0) if slow else chance.uniform(0.0, 0.004))
        if chance.random() < trouble.crash:
            self._crash()
        if self.dead:
            raise Dead
