"""Steps in turns are taken over when their worker is gone."""

from adapter.records.health_steps import abandoned
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Inline steps that are said to run in a worker which gives no sign of life."""
    return examination.late(abandoned(examination.settings.tables))


CHECK = Check(
    "step_abandoned",
    severity="error",
    meaning="Steps are said to run in workers that are gone, and nobody has taken them over.",
    command="almanac rebuild ULID",
    find=find,
    mend=Examination.poke,
)
