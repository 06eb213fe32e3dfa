"""What turns and queued steps read of the record in memory, and the leases that steps renew."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from adapter.interpreter.children import Ended
from adapter.interpreter.events import StoredEvent
from adapter.interpreter.state import ENDED
from adapter.records.look import BATCH
from adapter.testing.record import BEGIN
from adapter.testing.rows import plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from adapter.interpreter.children import Definition
    from adapter.interpreter.state import AcceptFrom, Key, Wait
    from adapter.testing.record import MemoryRecord


def outputs(record: MemoryRecord, steps: Iterable[Key]) -> dict[Key, Any]:
    """See ``Loader.outputs``."""
    return {key: plain(_step(record, key).get("output")) for key in steps}


def inputs(record: MemoryRecord, steps: Iterable[Key]) -> dict[Key, Any]:
    """See ``Loader.inputs``."""
    found = {key: plain(_step(record, key).get("input")) for key in steps}
    for key, value in found.items():
        if isinstance(value, dict) and value.get("cut") is True:
            for row in record.instances[record.steps[key]["instance"]].journal:
                if row.step == key and "config" in (data := row.entry.data):
                    found[key] = data["config"]
    return found


def _step(record: MemoryRecord, key: Key) -> dict[str, Any]:
    return record.steps.get(key, {})


def payloads(record: MemoryRecord, rows: Iterable[Key]) -> dict[Key, Any]:
    """See ``Loader.payloads``."""
    return {key: plain(record.inbox[int(key)].payload) for key in rows if int(key) in record.inbox}


def look(
    record: MemoryRecord, wait: Wait, accept_from: AcceptFrom, consumed: Iterable[Key]
) -> list[StoredEvent]:
    """See ``Looker.look``."""
    taken, match = set(consumed), dict(wait.match or {})
    after = int(accept_from.after or 0)
    seen = int(accept_from.snapshot or 0)
    return [
        StoredEvent(event.id, plain(event.payload), event.at)
        for event in sorted(record.events.values(), key=lambda event: event.id)
        if event.key == wait.event
        and event.id > after
        and event.number > seen
        and event.id not in taken
        and all(n in event.payload and event.payload[n] == v for n, v in match.items())
    ][:BATCH]


def ended(record: MemoryRecord, ulids: Collection[str]) -> dict[str, Ended]:
    """See ``Awaited.ended``."""
    found: dict[str, Ended] = {}
    for ulid in ulids:
        row = record.by_ulid.get(ulid)
        if row is None:
            found[ulid] = Ended(ulid, "unknown")
        elif row.status in ENDED:
            status: Any = row.status
            found[ulid] = Ended(ulid, status, code=row.columns.get("failure_code"))
    return found


def ended_outputs(record: MemoryRecord, noted: Iterable[Ended], limit: int) -> dict[str, Ended]:
    """See ``Awaited.outputs``; in memory nothing is left out before it is measured."""
    asked = {one.ulid: one for one in noted}
    found: dict[str, Ended] = {}
    rows = [row for ulid in asked if (row := record.by_ulid.get(ulid)) is not None]
    running = 0
    for row in sorted(rows, key=lambda row: row.id):
        ends = [
            step
            for step in row.steps.values()
            if step["node_type"] == "end" and step["status"] == "succeeded"
        ]
        output = plain(max(ends, key=lambda step: step["id"]).get("output")) if ends else None
        size = 0 if output is None else len(orjson.dumps(output))
        running += size
        code = row.columns.get("failure_code")
        if running > 2 * limit:
            output, size = None, max(size, limit + 1) if size else 0
        found[row.ulid] = Ended(
            row.ulid, asked[row.ulid].status, output, size, read=True, code=code
        )
    return {ulid: found.get(ulid) or _unread(asked[ulid]) for ulid in asked}


def _unread(noted: Ended) -> Ended:
    return Ended(noted.ulid, noted.status, read=True, code=noted.code)


def definitions(record: MemoryRecord, keys: Collection[str]) -> dict[str, Definition | None]:
    """See ``Awaited.definitions``."""
    return {key: record.definitions.get(key) for key in keys}


def expired(record: MemoryRecord, steps: Iterable[Key]) -> frozenset[Key]:
    """See ``Leases.expired``."""
    now = record.now()
    return frozenset(
        key
        for key in steps
        if _step(record, key).get("status") == "running"
        and (_step(record, key).get("lease_until") or BEGIN) <= now
    )


def rest(record: MemoryRecord, step: Key) -> float:
    """See ``Leases.rest``."""
    row = _step(record, step)
    if row.get("status") != "running" or row.get("lease_until") is None:
        return 0.0
    return max(float((row["lease_until"] - record.now()).total_seconds()), 0.0)


def renew(record: MemoryRecord, step: Key, token: str, seconds: float) -> bool:
    """See ``Leases.renew``."""
    row = _step(record, step)
    if row.get("status") != "running" or row.get("claim_token") != token:
        return False
    if (row.get("lease_until") or BEGIN) <= record.now():
        record.late.add(step)
    row["lease_until"] = record.now() + timedelta(seconds=seconds)
    record.log(f"lease {step} {row['lease_until']}")
    return True


def gone(record: MemoryRecord, workers: Iterable[str], gap: float) -> frozenset[str]:
    """See ``Workers.gone``."""
    alive = {
        name
        for name, (seen, stopped) in record.workers.items()
        if stopped or seen > record.seconds - gap
    }
    return frozenset(workers) - alive
