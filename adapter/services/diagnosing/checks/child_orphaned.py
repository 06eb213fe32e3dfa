"""Children go when their parent, who waited for them, has gone."""

from adapter.records.health_rows import orphaned_children
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Unfinished children whose parent has ended or was deleted."""
    return examination.late(orphaned_children(examination.settings.tables))


CHECK = Check(
    "child_orphaned",
    severity="warning",
    meaning="Instances go on although the parent that waited for them has ended, or was deleted.",
    command="almanac cancel ULID",
    find=find,
)
