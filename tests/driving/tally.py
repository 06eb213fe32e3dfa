"""What the processes of a driven run of the tests have done, and whether it was what was asked.

Each appends a line per turn to one file, so that those which are killed are counted too.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "ALMANAC_TEST_TALLY"
"""Names the file; set by the run that makes it."""


def note(kind: str, *words: str) -> None:
    """Appends a line if somebody counts."""
    path = os.environ.get(VARIABLE)
    if path:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{' '.join((kind, *words))}\n".encode())
        finally:
            os.close(file)


def note_turn(ulid: str, run: str, activity: str) -> None:
    """A worker begins a turn of a run of the driver."""
    note("turn", ulid, run, activity)


@dataclass(slots=True)
class Tally:
    """All that was noted.

    Attributes:
        runs: The turns of each run of each instance.
        again: Turns whose second was done.
        counts: How often the rest was noted: steps whose second was done (``step_twice``), and what
            tests have done without Temporal (``taken_twice``, ``taken_afresh``, ``run_twice``).
    """

    runs: dict[str, dict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    again: set[tuple[str, ...]] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, path: Path) -> Tally:
        """Reads a file that may not be there."""
        tally = cls()
        for line in path.read_text().splitlines() if path.exists() else ():
            kind, *words = line.split(" ")
            if kind == "turn":
                ulid, run, activity = words
                tally.runs[ulid][run].add(activity)
            elif kind == "turn_twice":
                tally.again.add(tuple(words))
            else:
                tally.counts[kind] += 1
        return tally

    @property
    def continued(self) -> dict[str, dict[str, set[str]]]:
        """The instances that took more than one turn, by their runs."""
        return {ulid: runs for ulid, runs in self.runs.items() if sum(map(len, runs.values())) > 1}

    def told(self, mode: str) -> str:
        """A line for people."""
        turns = sum(len(turns) for runs in self.runs.values() for turns in runs.values())
        counts = self.counts
        if mode == "continued":
            runs = sum(len(runs) for runs in self.continued.values())
            return (
                f"{len(self.continued)} instances of more than one turn had {runs} runs;"
                f" {counts['taken_afresh']} turns without Temporal began with nothing at hand"
            )
        return (
            f"{len(self.again)} of {turns} turns and {counts['step_twice']} queued steps of"
            f" workers, {counts['taken_twice']} turns and {counts['run_twice']} queued steps"
            " without Temporal were done twice"
        )

    def wrong(self, mode: str) -> list[str]:
        """What was not driven as ``mode`` says; nothing for ``plain``."""
        if mode == "continued":
            if not self.continued:
                return ["no execution was continued as new"]
            return [
                f"instance {ulid} took {sum(map(len, runs.values()))} turns in {len(runs)} runs"
                for ulid, runs in self.continued.items()
                if any(len(turns) > 1 for turns in runs.values())
            ]
        if mode == "twice" and not self.again and not self.counts["taken_twice"]:
            return ["no turn was taken twice"]
        return []
