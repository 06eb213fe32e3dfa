"""The rows of a log, case by case and in order, in bounded memory.

A log need not be sorted, so all of it must be read before the first case is known to be complete.
The rows are put aside in a temporary SQLite database, which sorts on disk what does not fit.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Self

from examples.permits.log import Row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from types import TracebackType

Follows = Counter[tuple[str | None, str | None]]
"""How often an activity directly follows another in a case; None stands before the first and after
the last activity."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_SETTINGS = (
    "PRAGMA cache_size = -65536",  # 64 MB in memory, the rest on disk
    "PRAGMA journal_mode = OFF",  # written once, never rolled back
    "PRAGMA synchronous = OFF",
)
_TABLE = """
CREATE TABLE rows (
  name TEXT, instant INTEGER, line INTEGER, activity TEXT, at TEXT, resource TEXT, more TEXT
)
"""
_CASES = """
CREATE TABLE cases AS
SELECT name, min(instant) AS first, min(line) AS line, max(instant) AS last, count(*) AS size
FROM rows GROUP BY name
"""
_INDEXES = (
    "CREATE UNIQUE INDEX by_case ON rows (name, instant, line)",
    "CREATE UNIQUE INDEX by_first ON cases (first, line)",
)
_ORDERED = """
FROM cases CROSS JOIN rows ON rows.name = cases.name
ORDER BY cases.first, cases.line, rows.instant, rows.line
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its rows by timestamp, then by their order in the file."""

    name: str
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Activity:
    """What a log says about one activity.

    Attributes:
        events: Rows that name it.
        starts: Cases that begin with it.
        ends: Cases that end with it.
    """

    name: str
    events: int
    starts: int
    ends: int


class Cases:
    """All cases of one log; use it as a context manager, or close it."""

    def __init__(self, rows: Iterable[Row]) -> None:
        # the empty name is a database on disk of nobody else's, gone when it is closed
        self._database = sqlite3.connect("")
        try:
            for setting in _SETTINGS:
                self._database.execute(setting)
            self._fill(rows)
        except BaseException:
            self.close()
            raise
        self.events: int = self._one("SELECT count(*) FROM rows")
        self.count: int = self._one("SELECT count(*) FROM cases")

    def __iter__(self) -> Iterator[Case]:
        """The cases, the one that began first first."""
        found = self._database.execute(
            "SELECT rows.name, rows.line, activity, at, resource, more" + _ORDERED
        )
        for name, group in groupby(found, key=lambda row: row[0]):
            rows = [
                Row(line, name, activity, datetime.fromisoformat(at), resource, json.loads(more))
                for _, line, activity, at, resource, more in group
            ]
            yield Case(name, rows)

    def follows(self) -> Follows:
        """The directly-follows counts, with the activities that begin and end the cases."""
        counts: Follows = Counter()
        found = self._database.execute("SELECT rows.name, activity" + _ORDERED)
        for _, group in groupby(found, key=lambda row: row[0]):
            before = None
            for _, activity in group:
                counts[before, activity] += 1
                before = activity
            counts[before, None] += 1
        return counts

    def activities(self, left_open: Collection[str] = ()) -> list[Activity]:
        """The activities by name.

        Args:
            left_open: Cases whose last activity is not the end of the case.
        """
        events: Counter[str] = Counter()
        starts: Counter[str] = Counter()
        ends: Counter[str] = Counter()
        found = self._database.execute("SELECT rows.name, activity" + _ORDERED)
        for case, group in groupby(found, key=lambda row: row[0]):
            steps = [activity for _, activity in group]
            events.update(steps)
            starts[steps[0]] += 1
            ends[steps[-1]] += case not in left_open
        return [Activity(name, events[name], starts[name], ends[name]) for name in sorted(events)]

    def longest(self) -> tuple[str, int]:
        """The case with the most rows, and how many."""
        name, size = self._database.execute(
            "SELECT name, size FROM cases ORDER BY size DESC, first, line LIMIT 1"
        ).fetchone()
        return name, size

    def newest(self, count: int) -> frozenset[str]:
        """The cases in which something happened last."""
        found = self._database.execute(
            "SELECT name FROM cases ORDER BY last DESC, first DESC, line DESC LIMIT ?", (count,)
        )
        return frozenset(name for (name,) in found)

    def ending_otherwise(self, activity: str) -> frozenset[str]:
        """The cases whose last activity is another one."""
        found = self._database.execute(
            "SELECT name FROM (SELECT rows.name, activity, lead(line) OVER (PARTITION BY rows.name"
            " ORDER BY instant, line) AS later FROM rows) WHERE later IS NULL AND activity <> ?",
            (activity,),
        )
        return frozenset(name for (name,) in found)

    def close(self) -> None:
        """Frees the temporary database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def _fill(self, rows: Iterable[Row]) -> None:
        with self._database as database:
            database.execute(_TABLE)
            database.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", map(_cells, rows))
            database.execute(_CASES)
            for index in _INDEXES:
                database.execute(index)

    def _one(self, query: str) -> int:
        (value,) = self._database.execute(query).fetchone()
        return int(value)


def _cells(row: Row) -> tuple[str, int, int, str, str, str, str]:
    instant = (row.at - _EPOCH) // _MICROSECOND
    more = json.dumps(row.more, ensure_ascii=False)
    return row.case, instant, row.line, row.activity, row.at.isoformat(), row.resource, more
