"""No unfinished instance's execution was ended by hand."""

from adapter.services.diagnosing.check import DATABASE, SCHEMA, TEMPORAL, Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Those whose newest execution was terminated."""
    census = examination.census
    return examination.found(census.ended.get("terminated", []), at_least=census.at_least)


CHECK = Check(
    "execution_terminated",
    severity="error",
    meaning="Somebody has terminated the executions of unfinished instances in Temporal. That does"
    " not end the instances: almanac cancel does. --fix leaves them, as it may have been meant.",
    command="almanac rebuild ULID",
    find=find,
    needs=frozenset({DATABASE, SCHEMA, TEMPORAL}),
)
