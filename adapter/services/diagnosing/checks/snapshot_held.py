"""Nobody keeps old versions of rows alive."""

from typing import Final

from adapter.records.health_inbox import HELD
from adapter.services.diagnosing.check import DATABASE, Check, Found
from adapter.services.diagnosing.examination import Examination

LONG: Final = 600.0
"""Seconds that a report or a dump may take."""


def find(examination: Examination) -> Found | None:
    """Transactions of others that have been open for long."""
    return examination.seen(HELD, named=False, held=LONG)


CHECK = Check(
    "snapshot_held",
    severity="warning",
    meaning="Transactions are open for long (the samples are process ids of PostgreSQL). While they"
    " are, the server keeps every version of a row, and instances that change often get slow.",
    command="end them: SELECT pg_terminate_backend(PID)",
    find=find,
    needs=frozenset({DATABASE}),
)
