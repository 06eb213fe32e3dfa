"""Nothing is open in an instance that has ended."""

from adapter.records.health_rows import close_left_open, left_open
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import MOST_FIXED, Examination


def find(examination: Examination) -> Found | None:
    """Ended instances with open steps or waits."""
    return examination.seen(left_open(examination.settings.tables))


def mend(examination: Examination, found: Found) -> str:
    """Closes them as the end of their instance should have."""
    chosen = list(found.ids[:MOST_FIXED])
    statements = close_left_open(examination.settings.tables)
    closed = examination.database.change(*statements, ulids=chosen)
    return f"closed {closed} rows of {len(chosen)} instances"


CHECK = Check(
    "rows_left_open",
    severity="error",
    meaning="Instances have ended with steps or waits that are still open: their rows were changed"
    " by another hand.",
    command="almanac doctor --fix",
    find=find,
    mend=mend,
)
