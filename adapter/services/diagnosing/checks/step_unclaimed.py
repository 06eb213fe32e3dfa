"""Steps that may run are begun."""

from typing import Final

from adapter.records.health_steps import unclaimed
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination

PATIENT: Final = 4.0
"""Queues may be full for a while: so many times the usual patience."""


def find(examination: Examination) -> Found | None:
    """Steps that nobody has begun."""
    return examination.late(unclaimed(examination.settings.tables), factor=PATIENT)


CHECK = Check(
    "step_unclaimed",
    severity="warning",
    meaning="Steps could run, and nobody begins them: no worker has their action or polls their"
    " queue, or there are too few workers.",
    command="almanac worker --import MODULE",
    find=find,
    mend=Examination.poke,
)
