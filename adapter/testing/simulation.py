"""A simulation: instances of every kind, workers that die, and what must hold whatever happens.

One seed decides everything: run it again, and the same happens again.

    python -m adapter.testing.simulation --seed 42
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import logging
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest.mock import patch

from adapter.execution import instance
from adapter.testing.loop import run
from adapter.testing.network import Trouble
from adapter.testing.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TOLD_EVERY = 10.0
"""Seconds between two lines about how far a long run has come."""


@dataclass(slots=True)
class Outcome:
    """What came of one seed.

    Attributes:
        problem: What did not hold; None if all did.
        counts: What happened, by name.
        trace: A hash of all that was written, in order.
    """

    seed: int
    problem: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    trace: str = ""

    @property
    def command(self) -> str:
        """What replays it."""
        return f"python -m adapter.testing.simulation --seed {self.seed} --log"

    def __str__(self) -> str:
        """What did not hold, and how to see it again."""
        return f"seed {self.seed}: {self.problem}\n  replay: {self.command}"


def simulate(
    seed: int, trouble: Trouble | None = None, log: Callable[[str], None] | None = None
) -> Outcome:
    """Runs the simulation of one seed.

    Args:
        seed: Decides everything.
        trouble: How often things go wrong; the usual by default.
        log: Told of everything that is written.
    """
    outcome = Outcome(seed)
    trace = hashlib.blake2b(digest_size=16)

    def note(text: str) -> None:
        trace.update(text.encode())
        if log is not None:
            log(text)

    async def main() -> None:
        with _virtual(seed):
            world = World(seed, trouble or Trouble(), note)
            try:
                await world.run()
            finally:
                outcome.counts = dict(world.counts)

    try:
        with _quiet():
            run(main())
    except Exception as error:
        outcome.problem = f"{type(error).__name__}: {error}"
    outcome.trace = trace.hexdigest()
    return outcome


@contextmanager
def _virtual(seed: int) -> Iterator[None]:
    """Has turns measure virtual time, draw from the seed, and write snapshots often."""
    state, ulids = random.getstate(), itertools.count(1)
    random.seed(seed)
    try:
        with (
            patch.object(time, "monotonic", asyncio.get_running_loop().time),
            patch.object(instance, "new_ulid", lambda: f"C{next(ulids):025}"),
            patch.object(instance, "SNAPSHOT_EVERY", random.choice([7, 25, 1_000])),
        ):
            yield
    finally:
        random.setstate(state)


@contextmanager
def _quiet() -> Iterator[None]:
    """What goes wrong is meant to, thousands of times."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)


def outcomes(seeds: range, jobs: int = 1) -> Iterator[Outcome]:
    """Simulates seeds, in several processes if asked to; gives what came of each, in order."""
    if jobs == 1:
        yield from map(simulate, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(simulate, seeds, chunksize=20)


def main(arguments: list[str] | None = None) -> int:
    """Runs seeds and prints those that break something."""
    parser = argparse.ArgumentParser(
        prog="python -m adapter.testing.simulation", description=__doc__
    )
    parser.add_argument("--seed", type=int, help="only this one, with what happened in it")
    parser.add_argument("--log", action="store_true", help="with --seed: all that is written")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1_000, help="how many seeds")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--until-broken", action="store_true", help="stop at the first that breaks")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return _one(chosen.seed, log=chosen.log)
    seeds = range(chosen.first, chosen.first + chosen.count)
    return _many(outcomes(seeds, chosen.jobs), chosen.count, until_broken=chosen.until_broken)


def _one(seed: int, *, log: bool) -> int:
    outcome = simulate(seed, log=print if log else None)
    for name, count in sorted(outcome.counts.items()):
        print(f"{count:6} {name}")
    print(f"trace {outcome.trace}")
    print(f"seed {seed}: all holds" if outcome.problem is None else outcome)
    return 0 if outcome.problem is None else 1


def _many(results: Iterable[Outcome], count: int, *, until_broken: bool) -> int:
    broken = done = 0
    began = told = time.perf_counter()
    for done, outcome in enumerate(results, start=1):
        if outcome.problem is not None:
            broken += 1
            print(outcome, flush=True)
            if until_broken:
                break
        now = time.perf_counter()
        if now - told > TOLD_EVERY:
            told = now
            left = (count - done) * (now - began) / done / 60
            print(f"{done} of {count} seeds, {broken} broke something, {left:.0f} min left")
            sys.stdout.flush()
    seconds = time.perf_counter() - began
    print(f"{done} seeds in {seconds:.1f} s, {broken} of them broke something")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
