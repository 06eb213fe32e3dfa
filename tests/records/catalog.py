"""What a database holds, read from PostgreSQL's own catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, l.collname
FROM pg_attribute a
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
# PostgreSQL 18 lists NOT NULL among the constraints.
_CONSTRAINTS = """
SELECT conname, contype::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = to_regclass(%s) AND contype <> 'n' ORDER BY conname
"""
_INDEXES = """
SELECT c.relname, i.indisunique, pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(%s) ORDER BY c.relname
"""


@dataclass(frozen=True)
class CatalogColumn:
    type: str
    nullable: bool
    default: str | None
    identity: str
    collation: str | None


@dataclass(frozen=True)
class CatalogTable:
    columns: Mapping[str, CatalogColumn]
    constraints: Mapping[str, tuple[str, str]]
    """Name -> (kind, definition); kinds as in pg_constraint: p, u, f, c."""
    indexes: Mapping[str, tuple[bool, str]]
    """Name -> (unique, definition)."""
    comment: str | None

    def of_kind(self, kind: str) -> dict[str, str]:
        return {name: text for name, (held, text) in self.constraints.items() if held == kind}

    def index_columns(self, name: str) -> tuple[str, ...]:
        """The columns of a plain index; empty when it is partial or has expressions."""
        found = re.fullmatch(r".* USING btree \(([a-z_, ]+)\)", self.indexes[name][1])
        return tuple(found[1].split(", ")) if found else ()


def read_table(url: str, name: str) -> CatalogTable:
    with psycopg.connect(url) as connection:
        columns = {
            row[0]: CatalogColumn(row[1], not row[2], row[3], row[4], row[5])
            for row in connection.execute(_COLUMNS, [name])
        }
        constraints = {row[0]: (row[1], row[2]) for row in connection.execute(_CONSTRAINTS, [name])}
        indexes = {row[0]: (row[1], row[2]) for row in connection.execute(_INDEXES, [name])}
        found = connection.execute("SELECT obj_description(to_regclass(%s), 'pg_class')", [name])
        comment = found.fetchone()
    return CatalogTable(columns, constraints, indexes, comment[0] if comment else None)


def table_names(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {row[0] for row in rows}
