"""Key types and table names of the settings are those of the database."""

from adapter.errors import Misconfigured
from adapter.records.migrating import verify_connected
from adapter.services.diagnosing.check import DATABASE, SCHEMA, Check, Found
from adapter.services.diagnosing.examination import Examination


def find(examination: Examination) -> Found | None:
    """Compares the settings with what the first migration has noted."""
    with examination.database.connection() as connection:
        try:
            verify_connected(connection, examination.settings)
        except Misconfigured as error:
            if error.code != "not_migrated":
                return Found(told=f"{error.message[:1].upper()}{error.message[1:]}")
    return None


CHECK = Check(
    "settings_differ",
    severity="error",
    meaning="Settings and database disagree on key types or names of tables.",
    command="correct the ALMANAC_* variables that are named; then almanac doctor",
    find=find,
    needs=frozenset({DATABASE}),
    provides=SCHEMA,
)
