"""Somebody works."""

from adapter.records.health_inbox import unattended
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Unfinished instances while no worker gives a sign of life."""
    return examination.seen(unattended(examination.settings.tables))


CHECK = Check(
    "workers_missing",
    severity="error",
    meaning="Instances are unfinished, and no worker has given a sign of life for 10 s.",
    command="almanac worker --import MODULE",
    find=find,
)
