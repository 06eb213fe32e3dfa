"""Rebuilding: unfinished instances get executions again, from the record alone.

What an execution knows stands in the record, so a rebuild is the poke that every start is: signal,
and start if none is open. It may be repeated, and it repeats no step that has succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from adapter.errors import Unavailable
from adapter.records.health import Examined
from adapter.records.health_instances import count_unfinished, labelled, unfinished
from adapter.services.diagnosing.asking import Asking
from adapter.services.diagnosing.census import open_executions
from adapter.services.diagnosing.examination import CALL, STATEMENT
from adapter.services.diagnosing.poking import poke
from adapter.services.faults import database_faults
from adapter.services.reading import accept_ulid, no_instance
from adapter.services.views import ENDED, View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapter.services.diagnosing.asking import Opener
    from adapter.settings import Settings

BATCH: Final = 500
NOBODY: Final = ""


@dataclass(frozen=True, slots=True)
class Refused(View):
    """An instance that Temporal did not take."""

    ulid: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rebuilt(View):
    """What a rebuild did.

    Attributes:
        unfinished: Instances that were looked at and have not ended.
        open: Those of them that had an open execution and were left alone; only with all of them.
        ended: Those named that have ended, and need none.
        poked: How many were poked.
        refused: Those that Temporal did not take: run it again.
    """

    unfinished: int
    open: int
    ended: tuple[str, ...]
    poked: int
    refused: tuple[Refused, ...]


def rebuild(settings: Settings, ulids: Sequence[str], *, opener: Opener | None = None) -> Rebuilt:
    """Rebuilds the instances named.

    Args:
        settings: Name the servers.
        ulids: Of the instances.
        opener: Connects to the engine; by default to Temporal.

    Raises:
        InvalidInput: ``invalid_ulid``.
        NotFound: ``instance_not_found``; nothing was poked.
        Unavailable: A server cannot be reached.
        Misconfigured: A setting is missing.
    """
    known = list(dict.fromkeys(accept_ulid(ulid) for ulid in ulids))
    database = Examined(settings, STATEMENT)
    try:
        with database_faults():
            rows = database.of(labelled(settings.tables), known)
            for ulid in known:
                if ulid not in rows:
                    raise no_instance(ulid)
            ended = tuple(ulid for ulid in known if rows[ulid].status in ENDED)
            wanted = [ulid for ulid in known if ulid not in ended]
            with Asking(settings, CALL, opener) as engine:
                done = poke(settings, database, engine, wanted)
    finally:
        database.close()
    return Rebuilt(len(wanted), 0, ended, len(done.poked), _refused(done.refused))


def rebuild_all(
    settings: Settings,
    *,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    opener: Opener | None = None,
) -> Rebuilt:
    """Rebuilds every unfinished instance without an open execution, in batches of 500.

    Args:
        settings: Name the servers.
        progress: Told how many of how many instances have been looked at.
        opener: Connects to the engine; by default to Temporal.

    Raises:
        Unavailable: A server cannot be reached; what was done is done, so run it again.
        Misconfigured: A setting is missing.
    """
    database = Examined(settings, STATEMENT)
    try:
        with database_faults(), Asking(settings, CALL, opener) as engine:
            return _all(settings, database, engine, progress)
    finally:
        database.close()


def _all(
    settings: Settings, database: Examined, engine: Asking, progress: Callable[[int, int], None]
) -> Rebuilt:
    total = int(database.rows(count_unfinished(settings.tables))[0].many)
    seen = opened = poked = 0
    refused: dict[str, str] = {}
    listed = _listed(engine)
    after = NOBODY
    while True:
        page = [
            row.ulid for row in database.rows(unfinished(settings.tables), after=after, most=BATCH)
        ]
        if not page:
            return Rebuilt(seen, opened, (), poked, _refused(refused))
        lacking = [ulid for ulid in page if ulid not in listed]
        done = poke(settings, database, engine, lacking)
        seen, opened = seen + len(page), opened + len(page) - len(lacking)
        poked += len(done.poked)
        refused |= done.refused
        if lacking and not done.poked:
            reason = next(iter(done.refused.values()))
            raise Unavailable(
                f"after {poked} instances Temporal took no more: {reason}; run it again",
                code="temporal_unavailable",
                poked=poked,
            )
        progress(seen, max(total, seen))
        after = page[-1]


def _listed(engine: Asking) -> frozenset[str]:
    """Instances that need no poke; none where Temporal does not list them: a poke does no harm."""
    try:
        return frozenset(open_executions(engine)[0])
    except Unavailable:
        return frozenset()


def _refused(refused: dict[str, str]) -> tuple[Refused, ...]:
    return tuple(Refused(ulid, reason) for ulid, reason in refused.items())
