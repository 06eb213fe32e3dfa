"""Temporal knows of no instances that the record does not."""

from adapter.services.diagnosing.check import DATABASE, SCHEMA, TEMPORAL, Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Executions, open or closed within a day, without a row."""
    census = examination.census
    return examination.found(census.unknown, at_least=census.at_least)


CHECK = Check(
    "instance_unknown",
    severity="warning",
    meaning="Temporal has executions, open or closed within a day, of instances that are not in"
    " the record: the database was restored to an earlier moment, or another one uses this task"
    " queue. What was lost has to be started again by whoever started it. An open one ends by"
    " itself at its next turn.",
    command="temporal workflow delete --workflow-id wf:ULID",
    find=find,
    needs=frozenset({DATABASE, SCHEMA, TEMPORAL}),
)
