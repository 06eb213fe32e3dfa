"""Writes sample.csv, a made-up log of building permits, and graph.json, the graph derived from it.

    python examples/permits/make_sample.py

The log is the same each time. It was "taken" on a day on which some cases were still open.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # run as a file, Python looks for modules beside it; ours are found from the project's root
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from examples.permits.cases import Cases
from examples.permits.derive import derive
from examples.permits.log import COLUMNS, read_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
SAMPLE = HERE / "sample.csv"
GRAPH = HERE / "graph.json"
NAME = "permits"
CLOSING = "Close the case"

CASES = 150
BEGIN = datetime(2025, 1, 6, 8, tzinfo=UTC)
TAKEN = datetime(2025, 6, 30, 17, tzinfo=UTC)
CHANNELS = (("web", 0.6), ("post", 0.25), ("desk", 0.15))

# activity -> (what may follow, how likely, days until then on average), and who does it
PATHS: dict[str, tuple[tuple[str, float, float], ...]] = {
    "Receive application": (("Check completeness", 1.0, 1.5),),
    "Check completeness": (
        ("Ask for missing documents", 0.35, 0.5),
        ("Assess against the zoning plan", 0.6, 6.0),
        ("Withdraw application", 0.05, 4.0),
    ),
    "Ask for missing documents": (
        ("Receive documents", 0.85, 12.0),
        ("Withdraw application", 0.15, 28.0),
    ),
    "Receive documents": (("Check completeness", 1.0, 1.0),),
    "Assess against the zoning plan": (
        ("Ask the fire brigade for advice", 0.4, 1.0),
        ("Visit the site", 0.3, 7.0),
        ("Draft decision", 0.3, 5.0),
    ),
    "Ask the fire brigade for advice": (("Receive advice", 1.0, 16.0),),
    "Receive advice": (("Visit the site", 0.4, 6.0), ("Draft decision", 0.6, 4.0)),
    "Visit the site": (("Draft decision", 1.0, 5.0),),
    "Draft decision": (("Review decision", 1.0, 2.0),),
    "Review decision": (("Draft decision", 0.2, 1.5), ("Sign and send decision", 0.8, 2.0)),
    "Sign and send decision": (("Receive objection", 0.1, 25.0), (CLOSING, 0.9, 42.0)),
    "Receive objection": (("Decide on objection", 1.0, 35.0),),
    "Decide on objection": ((CLOSING, 1.0, 7.0),),
    "Withdraw application": ((CLOSING, 1.0, 1.0),),
    CLOSING: (),
}
DESKS = {"Receive": "intake", "Ask": "permits", "Visit": "inspection", "Sign": "mayor"}


def main() -> None:
    """Writes both files."""
    with SAMPLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, "channel"])
        writer.writerows(sample_rows())
    text = json.dumps(graph_document(), indent=2, ensure_ascii=False)
    GRAPH.write_text(f"{text}\n", encoding="utf-8")


def graph_document() -> dict[str, Any]:
    """The graph that sample.csv leads to; only closed cases lead to its end."""
    with Cases(read_log(SAMPLE)) as cases:
        return derive(NAME, cases.activities(cases.ending_otherwise(CLOSING))).document


def sample_rows() -> list[tuple[str, ...]]:
    """What had happened in all cases when the log was taken, by time."""
    return sorted(_happened(), key=lambda row: (row[2], row[0]))


def _happened() -> Iterator[tuple[str, ...]]:
    # random() alone: its sequence is the same in every version of Python
    chance = random.Random(2025)
    for number in range(CASES):
        name = f"permit-2025-{number + 1:03}"
        channel = _choose(chance, CHANNELS)
        at = BEGIN + (TAKEN - BEGIN) * (number + chance.random()) / CASES
        activity = "Receive application"
        while at < TAKEN:
            who = f"{DESKS.get(activity.split()[0], 'permits')}-{1 + int(chance.random() * 4)}"
            yield name, activity, at.isoformat(timespec="seconds"), who, channel
            if not PATHS[activity]:
                break
            days = {to: days for to, _, days in PATHS[activity]}
            activity = _choose(chance, [(to, share) for to, share, _ in PATHS[activity]])
            at += timedelta(days=days[activity] * (0.3 + 1.4 * chance.random()))


def _choose(chance: random.Random, shares: Sequence[tuple[str, float]]) -> str:
    drawn = chance.random()
    for what, share in shares:
        drawn -= share
        if drawn < 0:
            return what
    return shares[-1][0]


if __name__ == "__main__":
    main()
