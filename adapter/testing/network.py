"""What lies between a process and the record: time, and now and then a broken connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Callable

_T = TypeVar("_T")

COMMIT = 0.01
"""Seconds, at most, between what a statement sees and its commit."""


@dataclass(slots=True)
class Trouble:
    """How often things go wrong, as probabilities.

    Attributes:
        broken: A connection breaks in a call: half of the time before it took effect.
        slow: A call takes seconds instead of milliseconds.
        crash: A process dies at an await.
        doubled: A turn or the activity of a step is given to two processes.
        poke: A poke gets lost, is late or comes twice, or its answer gets lost; each.
        poison: A handler takes its process with it.
        down: The database is not there at the moment.
    """

    broken: float = 0.04
    slow: float = 0.02
    crash: float = 0.003
    doubled: float = 0.15
    poke: float = 0.05
    poison: float = 0.02
    down: bool = False

    def end(self) -> None:
        """Nothing goes wrong any more."""
        self.broken = self.slow = self.crash = self.doubled = self.poke = self.poison = 0.0
        self.down = False


class Dead(BaseException):
    """The process is gone; whatever it was about to do does not happen."""


class Network:
    """The way from one process to the record.

    Args:
        chance: The simulation's only source of chance.
        trouble: How often things go wrong.
        counts: What has happened, by name.
    """

    def __init__(self, chance: random.Random, trouble: Trouble, counts: Counter[str]) -> None:
        self._chance = chance
        self._trouble = trouble
        self._counts = counts
        self.dead = False

    async def ask(self, operation: Callable[[], _T]) -> _T:
        """Has the record do something.

        Raises:
            ConnectionError: The connection broke, before or after the record did it.
            Dead: The process died meanwhile.
        """
        await self._travel()
        if self._chance.random() >= self._trouble.broken:
            done = operation()
            await self._travel()
            return done
        if self._chance.random() < 0.5:
            self._counts["calls broken before they took effect"] += 1
            raise ConnectionError("the connection broke before the statement")
        operation()
        self._counts["calls broken after they took effect"] += 1
        await self._travel()
        raise ConnectionError("the connection broke after the statement")

    async def append(self, see: Callable[[], object] | None, commit: Callable[[], _T]) -> _T:
        """Has the record append: what the statement sees is older than its commit.

        Raises:
            ConnectionError: The connection broke, before or after the commit.
            Dead: The process died meanwhile.
        """
        await self._travel()
        breaks = self._chance.random() < self._trouble.broken
        if breaks and self._chance.random() < 0.5:
            self._counts["appends broken before the commit"] += 1
            raise ConnectionError("the connection broke before the commit")
        if see is not None:
            see()
            await asyncio.sleep(self._chance.uniform(0.0, COMMIT))
            if self.dead:
                raise Dead
        done = commit()
        if breaks and done is not None:
            self._counts["appends broken after the commit"] += 1
        await self._travel()
        if breaks:
            raise ConnectionError("the connection broke after the commit")
        return done

    async def _travel(self) -> None:
        chance, trouble = self._chance, self._trouble
        slow = chance.random() < trouble.slow
        await asyncio.sleep(chance.uniform(0.5, 4.0) if slow else 0.004 * chance.random())
        if self.dead:
            raise Dead
        if trouble.down:
            self._counts["calls while the database was down"] += 1
            raise ConnectionError("the database is down")
