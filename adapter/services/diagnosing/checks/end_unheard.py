"""Who waits for an instance hears of its end."""

from math import ceil

from adapter.records.health_rows import unheard
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Instances that still wait for one that has ended."""
    return examination.seen(unheard(examination.settings.tables, ceil(examination.patience)))


CHECK = Check(
    "end_unheard",
    severity="error",
    meaning="Instances wait for others that have ended, and have not noted it.",
    command="almanac rebuild ULID",
    find=find,
    mend=Examination.poke,
)
