"""Clocks agree: the database's, this process's, the workers', Temporal's."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from adapter.errors import Unavailable
from adapter.records.health_inbox import CLOCK, clocks
from adapter.services.diagnosing.check import Check, Found
from adapter.services.diagnosing.examination import CALL, Examination

TOLERANCE: Final = 5.0
"""Seconds that clocks may be apart."""

LATE: Final = 15.0
"""Seconds by which a worker's clock may seem to be behind: its signs of life take some time."""

POLLING: Final = 120.0
"""Seconds within which a worker that lives asks Temporal for work at least once."""


def find(examination: Examination) -> Found | None:
    """Compares each with the database's clock, by which things fall due."""
    apart = [*_own(examination), *_workers(examination), *_temporal(examination)]
    if not apart:
        return None
    told = "; ".join(f"{who} is {abs(by):.0f} s {_way(by)} it" for who, by in apart)
    return Found(ids=tuple(who for who, _ in apart), told=f"{told}.", named=False)


def _own(examination: Examination) -> Iterator[tuple[str, float]]:
    with examination.database.connection() as connection:
        before = examination.clock()
        now = connection.exec_driver_sql(CLOCK).scalar_one().timestamp()
        after = examination.clock()
    if not before - TOLERANCE <= now <= after + TOLERANCE:
        yield "this process", (before + after) / 2 - now


def _workers(examination: Examination) -> Iterator[tuple[str, float]]:
    for row in examination.database.rows(clocks(examination.settings.tables)):
        if not -LATE < row.ahead < TOLERANCE:
            yield f"worker {row.name}", row.ahead


def _temporal(examination: Examination) -> Iterator[tuple[str, float]]:
    """Temporal tells when workers asked last; while they live that is a moment ago."""
    if examination.engine is None:
        return
    try:
        polled = examination.engine.ask(lambda _, known: known.polled_at(), CALL)
    except Unavailable:
        return
    if polled is None:
        return
    now = _database_time(examination)
    by = (polled - now).total_seconds()
    if by > TOLERANCE or (by < -POLLING and _lives(examination)):
        yield "Temporal", by


def _database_time(examination: Examination) -> datetime:
    now: datetime = examination.database.rows(CLOCK)[0].now
    return now.astimezone(UTC)


def _lives(examination: Examination) -> bool:
    return bool(examination.database.rows(clocks(examination.settings.tables)))


def _way(by: float) -> str:
    return "ahead of" if by > 0 else "behind"


CHECK = Check(
    "clock_skew",
    severity="warning",
    meaning="Clocks are more than 5 s apart (the samples say whose); things fall due by the"
    " database's, so this harms only times that people read, and timers of Temporal's.",
    command="set the clock: timedatectl set-ntp true",
    find=find,
)
