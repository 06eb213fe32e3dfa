"""Every unfinished instance has an open execution."""

from typing import Final

from adapter.services.diagnosing.check import DATABASE, SCHEMA, TEMPORAL, Check, Found
from adapter.services.diagnosing.examination import Examination

ELSEWHERE: Final = ("terminated", "completed")
"""How executions were closed that other checks tell of."""


def find(examination: Examination) -> Found | None:
    """Those without one, but for those whose last one says why."""
    census = examination.census
    missing = [
        one for status, seen in census.ended.items() if status not in ELSEWHERE for one in seen
    ]
    return examination.found(missing, at_least=census.at_least)


CHECK = Check(
    "execution_missing",
    severity="error",
    meaning="Unfinished instances have no open execution in Temporal: they go on only when"
    " something is sent to them or falls due.",
    command="almanac rebuild ULID",
    find=find,
    mend=Examination.poke,
    needs=frozenset({DATABASE, SCHEMA, TEMPORAL}),
)
