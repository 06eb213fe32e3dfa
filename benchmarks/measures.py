"""What was measured, and what is said about it: the median and the spread of each figure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.loads import Load


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of some samples, the lowest and the highest of them."""

    median: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Figure:
        """Sums up at least one sample."""
        return cls(statistics.median(samples), min(samples), max(samples), len(samples))

    def as_json(self) -> dict[str, float]:
        """The fields, rounded to four significant digits."""
        return {
            "median": significant(self.median),
            "low": significant(self.low),
            "high": significant(self.high),
            "samples": self.samples,
        }


@dataclass(slots=True)
class Results:
    """The samples of a run: for each contender and load, the seconds of each round.

    A sample is the median of what one contender took for one load in one round, where a short load
    is run several times in a row.
    """

    seconds: dict[str, dict[Load, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def add(self, contender: str, load: Load, seconds: float) -> None:
        """Takes one sample."""
        self.seconds[contender][load].append(seconds)

    def has(self, contender: str, load: Load) -> bool:
        """Whether there is a sample of it."""
        return bool(self.seconds.get(contender, {}).get(load))

    def rate(self, contender: str, load: Load) -> Figure:
        """Steps per second."""
        return Figure.of([load.total_steps / one for one in self.seconds[contender][load]])

    def step_milliseconds(self, contender: str, load: Load) -> Figure:
        """Milliseconds per step; latency only of a load with one chain at a time."""
        return Figure.of([one * 1_000 / load.total_steps for one in self.seconds[contender][load]])

    def rate_ratio(self, contender: str, other: str, load: Load) -> Figure:
        """How many times ``other``'s steps per second ``contender`` does; spread by round."""
        by_round = self._by_round(other, contender, load)
        return Figure(
            self.rate(contender, load).median / self.rate(other, load).median,
            min(by_round),
            max(by_round),
            len(by_round),
        )

    def latency_ratio(self, contender: str, other: str, load: Load) -> Figure:
        """``contender``'s milliseconds per step as a multiple of ``other``'s; spread by round."""
        by_round = self._by_round(contender, other, load)
        return Figure(
            self.step_milliseconds(contender, load).median
            / self.step_milliseconds(other, load).median,
            min(by_round),
            max(by_round),
            len(by_round),
        )

    def as_json(self, contender: str) -> dict[str, Any]:
        """All figures of one contender, by load."""
        figures: dict[str, Any] = {}
        for load in self.seconds.get(contender, {}):
            figures[load.name] = {"steps_per_second": self.rate(contender, load).as_json()}
            if load.is_alone:
                figures[load.name]["ms_per_step"] = self.step_milliseconds(
                    contender, load
                ).as_json()
        return figures

    def _by_round(self, above: str, below: str, load: Load) -> list[float]:
        pairs = zip(self.seconds[above][load], self.seconds[below][load], strict=False)
        return [one / other for one, other in pairs]


def significant(value: float) -> float:
    """Rounded to four significant digits: more would be noise."""
    return float(f"{value:.4g}")
