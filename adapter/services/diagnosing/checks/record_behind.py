"""No execution has seen an end that the record does not know."""

from adapter.services.diagnosing.check import DATABASE, SCHEMA, TEMPORAL, Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Unfinished instances whose execution was completed, which only the record's end does."""
    census = examination.census
    return examination.found(census.ended.get("completed", []), at_least=census.at_least)


CHECK = Check(
    "record_behind",
    severity="error",
    meaning="The record is behind Temporal: executions have seen the end of instances that are"
    " unfinished here. The database was restored to an earlier moment, or workers of another"
    " database poll this task queue. What was done since is done again.",
    command="almanac rebuild ULID",
    find=find,
    mend=Examination.poke,
    needs=frozenset({DATABASE, SCHEMA, TEMPORAL}),
)
