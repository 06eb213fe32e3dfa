"""What is told to instances is acted on."""

from adapter.records.health_inbox import unapplied
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Rows that wait for longer than a relay that dies and a sweep can explain."""
    return examination.late(unapplied(examination.settings.tables))


CHECK = Check(
    "inbox_unapplied",
    severity="warning",
    meaning="Instances have not got to commands, signals or events in their inbox: too few workers,"
    " or pokes are lost.",
    command="almanac rebuild ULID",
    find=find,
    mend=Examination.poke,
    grows=900,
)
