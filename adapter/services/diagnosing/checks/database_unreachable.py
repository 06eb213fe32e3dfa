"""The database answers."""

from adapter.services.diagnosing.check import DATABASE, Check

CHECK = Check(
    "database_unreachable",
    severity="error",
    meaning="The database does not answer: nothing can be accepted, done or read.",
    command="check ALMANAC_DATABASE_URL and the server; then almanac doctor",
    find=None,
    needs=frozenset(),
    provides=DATABASE,
)
