"""The tables are those that this version needs."""

from adapter.errors import Misconfigured
from adapter.records.migrating import verify_connected
from adapter.services.diagnosing.check import DATABASE, SCHEMA, Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Compares the revision, and the tables that are there."""
    with examination.database.connection() as connection:
        try:
            verify_connected(connection, examination.settings)
        except Misconfigured as error:
            if error.code == "not_migrated":
                return Found(told=f"{error.message[:1].upper()}{error.message[1:]}.")
    return None


CHECK = Check(
    "migrations_behind",
    severity="error",
    meaning="The database is not at the newest migration: workers of this version do not begin.",
    command="almanac migrate",
    find=find,
    needs=frozenset({DATABASE}),
    provides=SCHEMA,
)
