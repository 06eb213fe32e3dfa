"""How far a replay has come, by the tables; and waiting until all of its cases are over."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from adapter.settings import TableNames
    from examples.permits.compare import Run

SHORTEST, LONGEST = 0.25, 2.0
SHARE = 20
"""A look is followed by a pause of so many times its length, so that it costs others little."""

PATIENCE = 120.0
"""Seconds without any progress after which a replay is given up."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run at one moment.

    Attributes:
        handled: Rows of the log whose activity has begun at least.
        moving: Cases that neither wait for a row nor are over.
        ended: Cases that are over, failed ones included.
        failed: Cases that failed.
        failure: The code and message of one of them.
    """

    handled: int
    moving: int
    ended: int
    failed: int
    failure: str | None


# Each row of a case takes three step runs (see derive.step_runs), so the instances tell what would
# otherwise have to be counted in a table of many times their size.
_PROGRESS = """
SELECT coalesce(sum(steps_count / 3), 0),
       count(*) FILTER (WHERE ended_at IS NULL AND status <> 'waiting'),
       count(ended_at),
       count(*) FILTER (WHERE status = 'failed'),
       min(failure_code || ' at ' || failed_node_id || ': ' || coalesce(failure_message, ''))
FROM {instances}
WHERE definition_id = %(definition)s AND trigger_payload ->> 'run' = %(mark)s
"""


def progress(connection: psycopg.Connection[Any], tables: TableNames, run: Run) -> Progress:
    """Reads how far the run has come."""
    query = _PROGRESS.format(instances=tables.instances).encode()
    row = connection.execute(query, {"definition": run.definition, "mark": run.mark}).fetchone()
    assert row is not None
    return Progress(int(row[0]), *row[1:])


def wait_for_end(
    look: Callable[[], Progress],
    tell: Callable[[Progress], None],
    *,
    rows: int,
    closing: int,
    advice: Callable[[], str],
    patience: float = PATIENCE,
) -> Progress:
    """Looks again and again until the cases are over.

    Args:
        look: Reads the progress.
        tell: Is told each progress.
        rows: Rows in all.
        closing: Cases that are to end; others end by waiting for a row that never comes.
        advice: What may help when nothing moves.
        patience: Seconds without progress that are borne.

    Raises:
        Unavailable: Nothing moved for that long.
    """
    seen, moved_at = look(), time.monotonic()
    pause = SHORTEST
    while True:
        tell(seen)
        if seen.ended >= closing and not seen.moving and (seen.handled >= rows or seen.failed):
            return seen
        time.sleep(pause)
        began = time.monotonic()
        now = look()
        pause = min(max(SHORTEST, SHARE * (time.monotonic() - began)), LONGEST)
        if now != seen:
            seen, moved_at = now, time.monotonic()
        elif time.monotonic() - moved_at > patience:
            raise Unavailable(
                f"Nothing has moved for {patience:g} seconds: {seen.handled} of {rows} rows are "
                f"handled, {seen.ended} of {closing} cases are over. {advice()}"
            )
