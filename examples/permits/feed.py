"""Turning the cases of a log into starts and events, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from adapter import Almanac
    from examples.permits.cases import Case
    from examples.permits.derive import Derived

STARTS = 200
"""Cases of one batch at most."""

ROWS = 2_000
"""Rows of one batch; the case that exceeds it is still part of it."""

MARKS = ("run", "seq", "last")
"""What a replay adds to the columns of a log."""


def feed(
    almanac: Almanac,
    derived: Derived,
    cases: Iterable[Case],
    *,
    run: str,
    left_open: Collection[str],
    tell: Callable[[], object],
) -> None:
    """Starts an instance for each case and emits its further rows as events.

    The starts of a batch are committed before its events: an instance takes no event that is older
    than itself.

    Args:
        almanac: Where to.
        derived: The published graph.
        cases: Read once, a batch at a time.
        run: Tells this replay from others of the same log.
        left_open: Cases whose last row is not marked as the last.
        tell: Called after each batch.
    """
    for batch in batches(cases):
        starts: list[dict[str, Any]] = []
        events: list[tuple[str, dict[str, Any]]] = []
        for case in batch:
            first, *rest = payloads(case, run, is_open=case.name in left_open)
            starts.append(first)
            events += [(derived.event, payload) for payload in rest]
        almanac.start_many(derived.document["key"], starts)
        if events:
            almanac.emit_many(events)
        tell()


def payloads(case: Case, run: str, *, is_open: bool = False) -> list[dict[str, Any]]:
    """The rows of a case as payloads: the columns of the log and three marks.

    ``run`` is the replay's, ``seq`` numbers the rows of the case from 1, and ``last`` is true for
    the last one unless the case stays open. A column of the log that is called like a mark is kept
    with an underscore behind its name.
    """
    found: list[dict[str, Any]] = []
    for seq, row in enumerate(case.rows, start=1):
        found.append(
            {
                **{_free(name, row.more): cell for name, cell in row.more.items()},
                "case": case.name,
                "activity": row.activity,
                "timestamp": row.at.isoformat(),
                "resource": row.resource,
                "run": run,
                "seq": seq,
                "last": seq == len(case.rows) and not is_open,
            }
        )
    return found


def batches(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """The cases in batches of bounded size."""
    batch: list[Case] = []
    rows = 0
    for case in cases:
        batch.append(case)
        rows += len(case.rows)
        if len(batch) == STARTS or rows >= ROWS:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _free(name: str, taken: dict[str, str]) -> str:
    if name not in MARKS:
        return name
    name += "_"
    while name in taken:
        name += "_"
    return name
