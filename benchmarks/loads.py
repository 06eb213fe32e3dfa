"""What a contender is asked to do: so many chains of so many steps, so many at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SHAPE: Final = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,3})@([1-9]\d{0,3})")


@dataclass(frozen=True, slots=True)
class Load:
    """``chains`` chains of ``steps`` sequential steps each, at most ``at_once`` of them running."""

    chains: int
    steps: int
    at_once: int

    @property
    def name(self) -> str:
        """How people name it: ``20x50``, or ``20x50@4`` if it is not one of the standard loads."""
        short = f"{self.chains}x{self.steps}"
        return short if STANDARD.get(short) == self else f"{short}@{self.at_once}"

    @property
    def total_steps(self) -> int:
        """How many steps the whole load has."""
        return self.chains * self.steps

    @property
    def is_alone(self) -> bool:
        """Whether it measures latency: one chain at a time, nothing else to do."""
        return self.at_once == 1

    @property
    def chain_total(self) -> int:
        """What each chain must return: the sum of the ``n`` of its steps, 0 to steps - 1."""
        return self.steps * (self.steps - 1) // 2

    @classmethod
    def parse(cls, text: str) -> Load:
        """Reads ``20x50`` (a standard load) or ``CHAINSxSTEPS@AT_ONCE``.

        Raises:
            ValueError: The text is neither.
        """
        if standard := STANDARD.get(text):
            return standard
        if match := _SHAPE.fullmatch(text):
            return cls(*(int(number) for number in match.groups()))
        raise ValueError(
            f"{text!r} is no load: choose among {', '.join(STANDARD)}, "
            "or write CHAINSxSTEPS@AT_ONCE, e.g. 40x25@8"
        )


LATENCY: Final = Load(1, 40, 1)
MANY_SHORT: Final = Load(100, 10, 50)
THROUGHPUT: Final = Load(20, 50, 10)
STANDARD: Final = {"1x40": LATENCY, "100x10": MANY_SHORT, "20x50": THROUGHPUT}
WARM_UP: Final = Load(20, 10, 10)
