"""A fresh database per contender on one PostgreSQL, whose commits are shown to be durable."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from benchmarks.errors import NotDurable

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX: Final = "almanac_benchmark_"
_DURABLE: Final = ("fsync", "synchronous_commit", "full_page_writes")
_PROBES: Final = 100


class Databases:
    """The databases of one run.

    Args:
        url: A libpq URL of a database from which others may be created.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def create(self, contender: str) -> str:
        """Makes an empty database for the contender and returns its URL."""
        self._drop(contender)
        with self._connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(_name(contender)))
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(path=f"/{_plain_name(contender)}"))

    def drop(self, contenders: Iterable[str]) -> None:
        """Removes the databases of these contenders."""
        for contender in contenders:
            self._drop(contender)

    def facts(self) -> dict[str, Any]:
        """The server's version and durability settings, and what one small commit costs now.

        Raises:
            NotDurable: A setting lets the server lose what it has committed.
        """
        with self._connect() as connection:
            settings = {name: _show(connection, name) for name in _DURABLE}
            for name, value in settings.items():
                if value != "on":
                    raise NotDurable(f"PostgreSQL runs with {name} = {value}; set it to on")
            return {
                "version": _show(connection, "server_version"),
                **settings,
                "shared_buffers": _show(connection, "shared_buffers"),
                "commit_ms": round(_commit_milliseconds(connection), 3),
            }

    def _drop(self, contender: str) -> None:
        with self._connect() as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(_name(contender))
            )

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url, autocommit=True)


def _plain_name(contender: str) -> str:
    return _PREFIX + contender.replace("-", "_")


def _name(contender: str) -> sql.Identifier:
    return sql.Identifier(_plain_name(contender))


def _show(connection: psycopg.Connection[Any], setting: str) -> str:
    row = connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(setting))).fetchone()
    assert row is not None
    return str(row[0])


def _commit_milliseconds(connection: psycopg.Connection[Any]) -> float:
    table = sql.Identifier(_PREFIX + "commits")
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
    connection.execute(sql.SQL("CREATE TABLE {} (n integer)").format(table))
    insert = sql.SQL("INSERT INTO {} VALUES (1)").format(table)
    taken = []
    for _ in range(_PROBES):
        started = time.perf_counter()
        connection.execute(insert)
        taken.append(time.perf_counter() - started)
    connection.execute(sql.SQL("DROP TABLE {}").format(table))
    return median(taken) * 1_000
