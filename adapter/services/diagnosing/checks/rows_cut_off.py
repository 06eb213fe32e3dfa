"""Rows belong to instances."""

from adapter.records.health_rows import cut_off, drop_cut_off
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import MOST_FIXED, Examination


def find(examination: Examination) -> Found | None:
    """Open rows whose instance is not there."""
    return examination.seen(cut_off(examination.settings.tables), named=False)


def mend(examination: Examination, found: Found) -> str:
    """Deletes some of them."""
    statements = drop_cut_off(examination.settings.tables)
    dropped = examination.database.change(*statements, most=MOST_FIXED)
    return f"deleted {dropped} rows"


CHECK = Check(
    "rows_cut_off",
    severity="warning",
    meaning="Waits, steps or inbox rows are open whose instance is not there (the samples are"
    " table:id): instances were deleted with their triggers off, or a restore was cut short.",
    command="almanac doctor --fix",
    find=find,
    mend=mend,
)
