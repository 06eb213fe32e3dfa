"""Events reach those who wait for them."""

from typing import Final

from adapter.records.health_inbox import unmatched
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import MOST_FIXED, Examination
from adapter.services.matching import match_events

BATCH: Final = 100


def find(examination: Examination) -> Found | None:
    """Events that no relay has taken."""
    return examination.late(unmatched(examination.settings.tables), named=False)


def mend(examination: Examination, found: Found) -> str:
    """Matches some of them here."""
    taken = 0
    while taken < MOST_FIXED:
        with examination.database.transaction() as connection:
            report = match_events(connection, examination.settings, BATCH)
        taken += report.events
        if report.events < BATCH:
            break
    return f"matched {taken} events"


CHECK = Check(
    "events_unmatched",
    severity="warning",
    meaning="Events have not been brought to the instances and triggers that wait for them (the"
    " samples are ids of events): no worker's relay does it.",
    command="almanac doctor --fix",
    find=find,
    mend=mend,
    grows=900,
)
