"""What falls due happens."""

from adapter.records.health_steps import overdue
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Waits, delays and back-offs whose time has come."""
    return examination.late(overdue(examination.settings.tables))


CHECK = Check(
    "due_not_fired",
    severity="error",
    meaning="Waits, delays or back-offs are over, and their instances have not gone on.",
    command="almanac rebuild ULID",
    find=find,
    mend=Examination.poke,
)
