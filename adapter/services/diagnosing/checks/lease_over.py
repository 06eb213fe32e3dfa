"""Queued steps are taken over when their worker is gone."""

from adapter.records.health_steps import leases_over
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Queued steps that are said to run, on a lease that nobody has renewed."""
    return examination.late(leases_over(examination.settings.tables))


CHECK = Check(
    "lease_over",
    severity="error",
    meaning="Queued steps are said to run, but nobody renews their leases, and nobody has taken"
    " them over.",
    command="almanac rebuild ULID",
    find=find,
    mend=Examination.poke,
)
