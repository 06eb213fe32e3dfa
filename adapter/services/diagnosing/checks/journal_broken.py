"""Row and journal of an instance are of one moment."""

from adapter.records.health_rows import broken_journals
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Unfinished instances whose lock_version is not the last entry of their journal."""
    return examination.seen(broken_journals(examination.settings.tables))


CHECK = Check(
    "journal_broken",
    severity="error",
    meaning="Instances and their journals are not of one moment: rows were changed by another hand,"
    " or a restore was cut short. They cannot go on.",
    command="restore them from a backup; then almanac rebuild ULID",
    find=find,
)
