"""The load that goes on while something is killed, and what is compared of it afterwards."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.survival.records import comparable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.survival.bed import Bed
    from tests.workflow.recorded import Recorded


def begin(bed: Bed, run: str, numbers: Iterable[int]) -> list[str]:
    """Starts instances of the load and sends each what it will wait for; gives their ulids."""
    numbers = list(numbers)
    payloads = [{"run": run, "n": n} for n in numbers]
    ulids = [started.ulid for started in bed.almanac.start_many("load", payloads)]
    for n, ulid in zip(numbers, ulids, strict=True):
        bed.almanac.signal(ulid, "on", {"n": n})
        bed.almanac.emit("go", {"run": run, "n": n})
    return ulids


def differences(
    recorded: dict[str, Recorded], rough: list[str], calm: list[str]
) -> list[dict[str, Any]]:
    """In what instances of the run "rough" differ from those of the run "calm"."""
    found = []
    for one, other in zip(rough, calm, strict=True):
        rows, undisturbed = comparable(recorded[one]), comparable(recorded[other])
        for part, counted in rows.items():
            # What the run is called stands in what waits match on.
            mine = Counter(str(row).replace("rough", "calm") for row in counted.elements())
            its = Counter(map(str, undisturbed[part].elements()))
            if mine != its:
                found.append({"ulid": one, "more": mine - its, "fewer": its - mine})
    return found
