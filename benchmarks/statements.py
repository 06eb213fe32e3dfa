"""What PostgreSQL itself says about the statements of one database: ``pg_stat_statements``.

Its times begin when the statement is planned or executed and end before the commit: writing the
commit to disk is not in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import psycopg

if TYPE_CHECKING:
    from temporal_workflows.dev.stack import Stack

_EXTENSION: Final = "pg_stat_statements"
_READ: Final = """
SELECT coalesce(sum(calls) FILTER (WHERE is_append), 0)::float8,
  coalesce(sum(total_exec_time) FILTER (WHERE is_append), 0)::float8,
  coalesce(sum(total_plan_time) FILTER (WHERE is_append), 0)::float8,
  coalesce(sum(calls) FILTER (WHERE NOT is_append), 0)::float8,
  coalesce(sum(total_exec_time + total_plan_time) FILTER (WHERE NOT is_append), 0)::float8,
  coalesce(sum(shared_blks_hit + shared_blks_read) FILTER (WHERE is_append), 0)::float8
FROM (SELECT *, query LIKE 'WITH up AS (UPDATE%%' AS is_append FROM pg_stat_statements
  WHERE dbid = (SELECT oid FROM pg_database WHERE datname = %s)) s
"""


@dataclass(frozen=True, slots=True)
class Served:
    """What the server has done for one database so far; times in milliseconds.

    ``pages`` are those that appends have looked at, in memory or not: a count that no other load on
    the machine can disturb.
    """

    appends: float
    executing: float
    planning: float
    others: float
    others_ms: float
    pages: float

    def since(self, before: Served) -> Served:
        """The difference."""
        return Served(
            self.appends - before.appends,
            self.executing - before.executing,
            self.planning - before.planning,
            self.others - before.others,
            self.others_ms - before.others_ms,
            self.pages - before.pages,
        )


class Statements:
    """Reads the statistics of one database, from another one.

    Args:
        admin_url: A libpq URL of a database that has the extension.
        database_url: The database in question.
    """

    def __init__(self, admin_url: str, database_url: str) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(admin_url, autocommit=True)
        self._database = urlsplit(database_url).path.strip("/")

    def read(self) -> Served:
        """What was done up to now."""
        row = self._connection.execute(_READ, (self._database,)).fetchone()
        assert row is not None
        return Served(*row)

    def close(self) -> None:
        """Gives the connection up."""
        self._connection.close()


def have_statements_counted(stack: Stack) -> None:
    """Sets an embedded server up to count; restarts it for that."""
    url = stack.database_url
    _configure(url, "shared_preload_libraries = 'pg_stat_statements'")
    stack.postgres.stop()
    stack.start("postgres")
    _configure(url, "pg_stat_statements.track_planning = on")


def are_counted(url: str) -> bool:
    """Whether the server counts statements, and this database can be asked."""
    with psycopg.connect(url, autocommit=True) as connection:
        loaded = connection.execute("SHOW shared_preload_libraries").fetchone()
        if loaded is None or _EXTENSION not in loaded[0]:
            return False
        try:
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS {_EXTENSION}")
        except psycopg.Error:
            return False
    return True


def _configure(url: str, setting: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
