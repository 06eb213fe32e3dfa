"""What relays ask of the record in memory: whom to poke."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from adapter.records.relaying import AGAIN_FIRST, AGAIN_MOST
from adapter.testing.reads import ended
from adapter.testing.record import named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime
    from typing import Any

    from adapter.testing.record import MemoryRecord
    from adapter.testing.rows import InboxRow, InstanceRow

LATE = timedelta(seconds=10)
"""What has been due for so long is poked for by the sweep."""


def claim(record: MemoryRecord, limit: int, *, starts: bool) -> list[str]:
    """Marks rows that nobody has poked for; returns their instances' ulids."""
    fresh = [told for told in record.unpoked.values() if (told.kind == "start") == starts]
    return _mark(record, fresh, limit)


def claim_again(record: MemoryRecord, limit: int) -> list[str]:
    """Marks rows again whose poke led to nothing for a while."""
    late = [
        told
        for row in record.instances.values()
        for told in row.unapplied.values()
        if told.poked_at is not None and told.poked_at < record.seconds - _patience(told)
    ]
    return _mark(record, late, limit)


def _patience(told: InboxRow) -> float:
    waited = (told.poked_at or 0.0) - told.created_at
    return min(AGAIN_MOST, max(AGAIN_FIRST, waited))


def _mark(record: MemoryRecord, rows: Iterable[InboxRow], limit: int) -> list[str]:
    picked = sorted(rows, key=lambda told: told.id)[:limit]
    for told in picked:
        told.poked_at = record.seconds
        record.unpoked.pop(told.id, None)
    return list(dict.fromkeys(record.instances[told.instance].ulid for told in picked))


def release(record: MemoryRecord, ulids: Collection[str]) -> None:
    """Takes the marks back."""
    for ulid in ulids:
        for told in record.by_ulid[ulid].unapplied.values():
            told.poked_at = None
            record.unpoked[told.id] = told


def asked_to_cancel(record: MemoryRecord, ulids: Collection[str]) -> list[str]:
    """Those that somebody has asked to cancel."""
    return [
        ulid
        for ulid in ulids
        if any(told.kind == "cancel" for told in record.by_ulid[ulid].unapplied.values())
    ]


def overdue(record: MemoryRecord, limit: int, after: str) -> list[str]:
    """Instances with something due for ten seconds."""
    late = record.now() - LATE
    found = [
        row.ulid
        for row in record.instances.values()
        if row.ulid > after
        and row.status in ("running", "waiting")
        and (
            any(_step_is_late(step, late) for step in row.steps.values())
            or any(_wait_is_late(record, row, wait, late) for wait in row.waits.values())
        )
    ]
    return sorted(found)[:limit]


def _step_is_late(step: dict[str, Any], late: datetime) -> bool:
    if step["status"] == "retrying":
        return bool(step["scheduled_for"] < late)
    if step["status"] == "scheduled":
        return bool(step["updated_at"] < late)
    if step["status"] == "running":
        return bool((step.get("lease_until") or step["updated_at"] + LATE) < late + LATE)
    return False


def _wait_is_late(
    record: MemoryRecord, row: InstanceRow, wait: dict[str, Any], late: datetime
) -> bool:
    if wait["status"] != "pending":
        return False
    if wait.get("due_at") is not None and wait["due_at"] < late:
        return True
    if not named(wait) or wait["created_at"] >= late:
        return False
    noted = {
        one.entry.data["child"]
        for one in row.journal
        if one.kind == "wait_advanced" and "child" in one.entry.data
    }
    settled = {
        ulid
        for ulid in ended(record, named(wait))
        if (other := record.by_ulid.get(ulid)) is None or other.columns["ended_at"] < late
    }
    return bool(settled - noted)
