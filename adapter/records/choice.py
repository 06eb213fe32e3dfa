r"""What a database was made with: the settings that its migrations fixed, and where that is kept.

The first migration writes the choice as a comment on the definitions table, where ``psql`` shows
it (``\d+``), ``pg_dump`` carries it, and a host that runs the migrations from an Alembic tree of
its own keeps it too. Every later run, and every process that opens the database, compares it
with its settings: other key types or names would not fail, they would read and write wrongly.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from adapter.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapter.settings import MorphKeyType, PrimaryKeyType, Settings, TableNames

MARK = "Almanac: "

# Only the current schema counts: one schema holds one Almanac, because the documented index
# names are the same whatever the tables are called.
STAMPS_QUERY = """
SELECT c.relname::text, d.description
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_description d
  ON d.objoid = c.oid AND d.classoid = 'pg_catalog.pg_class'::regclass AND d.objsubid = 0
WHERE n.nspname = current_schema() AND c.relkind = 'r' AND d.description LIKE 'Almanac: %'
ORDER BY c.relname
"""


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """The settings that are fixed once the migrations have run; hashable."""

    tables: TableNames
    primary_key_type: PrimaryKeyType
    owner_key_type: MorphKeyType
    subject_key_type: MorphKeyType
    key_type: MorphKeyType

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Takes the part of the settings that a migration fixes."""
        return cls(
            tables=settings.tables,
            primary_key_type=settings.primary_key_type,
            owner_key_type=settings.owner_key_type,
            subject_key_type=settings.subject_key_type,
            key_type=settings.key_type,
        )

    def facts(self) -> dict[str, str]:
        """Returns the choice as flat setting names and values, ``tables.instances`` and so on."""
        flat = {k: v for k, v in asdict(self).items() if k != "tables"}
        return flat | {f"tables.{k}": v for k, v in self.tables.model_dump().items()}

    def stamp(self) -> str:
        """Returns the text of the comment that keeps the choice in the database."""
        return MARK + json.dumps(self.facts())


def verify_stamps(rows: Sequence[Sequence[Any]], choice: SchemaChoice) -> bool:
    """Compares the rows of ``STAMPS_QUERY`` with the choice; True when the database has one.

    Only facts that the database knows are compared: a table that a newer version adds is named by
    the migration that creates it.

    Raises:
        Misconfigured: The database was made with other key types or table names; the message
            names each with both values.
    """
    if not rows:
        return False
    if len(rows) > 1:
        names = ", ".join(str(row[0]) for row in rows)
        raise Misconfigured(
            f"one schema holds several Almanacs ({names}); give each a schema of its own",
            tables=[str(row[0]) for row in rows],
        )
    found: dict[str, str] = json.loads(str(rows[0][1])[len(MARK) :])
    wanted = choice.facts()
    differing = {
        name: {"database": value, "settings": wanted[name]}
        for name, value in found.items()
        if name in wanted and wanted[name] != value
    }
    if differing:
        listed = "; ".join(
            f"{name} is {both['database']!r} in the database and {both['settings']!r} in the "
            "settings"
            for name, both in differing.items()
        )
        raise Misconfigured(
            f"the settings do not fit this database: {listed}. Key types and table names are "
            "fixed by the first migration: change the settings, or use an empty schema.",
            differing=differing,
            remedy=f"{_setting(differing)}; or use an empty schema",
        )
    return True


def _setting(differing: dict[str, dict[str, str]]) -> str:
    variables = (
        f"ALMANAC_{name.upper().replace('.', '__')}={both['database']}"
        for name, both in differing.items()
    )
    return f"set {' '.join(variables)}"
