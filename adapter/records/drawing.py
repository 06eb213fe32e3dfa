"""SQL pieces that several statements share: types of ids, and ids drawn by the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapter.records.columns import sql_type

if TYPE_CHECKING:
    from adapter.records.choice import SchemaChoice

# As the transaction's own id may lie below the snapshot's xmax, the snapshot would count the
# transaction's own events as seen; listed as in progress, they come after it.
SNAPSHOT = """
SELECT CASE WHEN own.xid >= pg_snapshot_xmax(own.seen) THEN own.seen::text ELSE
  least(pg_snapshot_xmin(own.seen), own.xid)::text || ':' || pg_snapshot_xmax(own.seen)::text
  || ':' || (SELECT string_agg(x.xid::text, ',' ORDER BY x.xid) FROM (
      SELECT own.xid UNION SELECT pg_snapshot_xip(own.seen)) AS x(xid)) END AS snapshot
FROM (SELECT pg_current_snapshot() AS seen, pg_current_xact_id() AS xid) AS own
"""
"""The moment of a start as text of a ``pg_snapshot``: what a later event is told by."""

_DRAWS = {"uuid": "almanac_uuid7()", "ulid": "almanac_ulid()"}


def key_of(value: Any) -> int | str:
    """Returns an id as the other parts know it: an int, or text also where the driver has UUIDs."""
    return value if isinstance(value, int) else str(value)


def id_type(choice: SchemaChoice) -> str:
    """Returns the SQL type of ids of ours."""
    return sql_type(choice.primary_key_type)


def id_source(choice: SchemaChoice, table: str) -> tuple[str, str]:
    """Returns what draws an id of a table in a SELECT list, and the FROM item that it needs."""
    if choice.primary_key_type != "bigint":
        return _DRAWS[choice.primary_key_type], "(SELECT 1 OFFSET 0) AS source"
    name = f"pg_get_serial_sequence('\"{table}\"', 'id')::regclass"
    return "nextval(source.name)", f"(SELECT {name} AS name OFFSET 0) AS source"
