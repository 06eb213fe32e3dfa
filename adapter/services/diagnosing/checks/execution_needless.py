"""Executions end with their instances."""

from adapter.services.diagnosing.check import DATABASE, SCHEMA, TEMPORAL, Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Open executions of instances that have ended."""
    census = examination.census
    return examination.found(census.needless, at_least=census.at_least)


CHECK = Check(
    "execution_needless",
    severity="warning",
    meaning="Executions are open in Temporal although their instances have ended. They do nothing,"
    " and end at their next turn; if they do not, see why their tasks fail.",
    command="almanac rebuild ULID",
    find=find,
    mend=Examination.poke,
    needs=frozenset({DATABASE, SCHEMA, TEMPORAL}),
)
