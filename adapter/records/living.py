"""Which workers are alive, for people who wait for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from adapter.records.workers import GAP

if TYPE_CHECKING:
    from adapter.settings import Settings


def count_living(connection: Connection, settings: Settings) -> int:
    """Returns how many workers have given a sign of life within ``GAP`` and have not left.

    Args:
        connection: Any open connection.
        settings: Names the table.
    """
    query = text(
        f"SELECT count(*) FROM {settings.tables.workers} WHERE stopped_at IS NULL"
        " AND seen_at > clock_timestamp() - make_interval(secs => CAST(:gap AS double precision))"
    )
    return int(connection.execute(query, {"gap": GAP}).scalar_one())
