"""Every unfinished instance has something that makes it go on."""

from adapter.records.health_rows import stalled, start_again
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import MOST_FIXED, Examination


def find(examination: Examination) -> Found | None:
    """Instances without a step, a wait or an inbox row that is open."""
    return examination.late(stalled(examination.settings.tables))


def mend(examination: Examination, found: Found) -> str:
    """Pokes, and writes missing start rows, which the relay acts on."""
    poked = examination.poke(found)
    chosen = list(found.ids[:MOST_FIXED])
    begun = examination.database.change(start_again(examination.settings.tables), ulids=chosen)
    return f"{poked}; wrote {begun} start rows"


CHECK = Check(
    "instance_stalled",
    severity="error",
    meaning="Unfinished instances have nothing open that could make them go on: a row is missing.",
    command="almanac doctor --fix",
    find=find,
    mend=mend,
)
