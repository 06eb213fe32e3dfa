"""The record in memory: the tables as far as turns, steps and relays use them, and their rules.

Every operation is atomic, as one statement is. Values pass through JSON, as they do in a database.
It is held to the same suite as the real record.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from adapter.interpreter.children import Definition, Ended
from adapter.interpreter.entries import Entry
from adapter.interpreter.env import Facts
from adapter.interpreter.events import Arrived, StoredEvent
from adapter.interpreter.projection import AT
from adapter.interpreter.state import ENDED
from adapter.records.append import Appended
from adapter.records.load import BrokenJournal, Loaded
from adapter.testing.rows import EventRow, InboxRow, InstanceRow, JournalRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from adapter.graph.compiled import Graph
    from adapter.interpreter.projection import Changes, Row
    from adapter.interpreter.state import AcceptFrom, Key, Wait

MICROSECOND = timedelta(microseconds=1)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class MemoryRecord:
    """All rows of one database, and its clock.

    Attributes:
        clock: Seconds that have gone by.
        ahead: Seconds by which the database's clock has jumped.
        checks: Called after each append with the instance that it moved.
    """

    clock: Callable[[], float]
    ahead: float = 0.0
    checks: list[Callable[[int], None]] = field(default_factory=list)
    instances: dict[int, InstanceRow] = field(default_factory=dict)
    by_ulid: dict[str, int] = field(default_factory=dict)
    journals: dict[int, list[JournalRow]] = field(default_factory=dict)
    steps: dict[Any, dict[str, Any]] = field(default_factory=dict)
    waits: dict[Any, dict[str, Any]] = field(default_factory=dict)
    inbox: dict[int, InboxRow] = field(default_factory=dict)
    events: dict[int, EventRow] = field(default_factory=dict)
    graphs: dict[int, Graph] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    workers: dict[str, tuple[float, bool]] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    transactions: int = 0

    @property
    def seconds(self) -> float:
        """What the database's clock shows, in seconds since it was set up."""
        return self.clock() + self.ahead

    def now(self) -> datetime:
        """The database's clock."""
        return BEGIN + timedelta(seconds=self.seconds)

    # what callers do

    def publish(self, key: str, graph: Graph) -> None:
        """Makes a graph startable under a key."""
        number = next(self.numbers)
        self.graphs[number] = graph
        self.definitions[key] = Definition(number, number, "system")

    def start(self, key: str, payload: Any) -> str:
        """Writes an instance and its start row; returns its ulid."""
        definition = self.definitions[key]
        row = self._born(int(definition.version), payload, f"{next(self.numbers):026}")
        self.tell(row.id, "start", {"snapshot": str(self.transactions), "after": None})
        return row.ulid

    def emit(self, key: str, payload: Any) -> int:
        """Writes an event."""
        self.transactions += 1
        number = next(self.numbers)
        self.events[number] = EventRow(number, key, _plain(payload), self.transactions, self.now())
        return number

    def tell(self, instance: int, kind: str, payload: Any, event: int | None = None) -> int:
        """Writes an inbox row."""
        if event is not None and any(
            row.instance == instance and row.event == event for row in self.inbox.values()
        ):
            return 0
        number = next(self.numbers)
        self.inbox[number] = InboxRow(
            number, instance, kind, _plain(payload), event, created_at=self.seconds
        )
        return number

    # what turns do

    def load(self, ulid: str, since: int, writer: str | None) -> Loaded:
        """See ``Loader.load``."""
        row = self.instances[self.by_ulid[ulid]]
        journal = self.journals[row.id]
        if since and (
            since > len(journal) or (writer is not None and journal[since - 1].writer != writer)
        ):
            return self.load(ulid, 0, None)
        if row.lock_version != len(journal):
            raise BrokenJournal(f"instance {ulid}: {row.lock_version} and {len(journal)} differ")
        fresh = journal[since:]
        return Loaded(
            id=row.id,
            version=row.version,
            owner_scope="*",
            status=row.columns["status"],
            seq=row.lock_version,
            since=since,
            entries=[_copied(one.entry) for one in fresh],
            inbox=[
                Arrived(one.id, one.kind, _plain(one.payload), one.event)
                for one in sorted(self.inbox.values(), key=lambda one: one.id)
                if one.instance == row.id and not one.applied
            ][:500],
            facts=Facts(ulid, row.payload, None, {"id": ulid, "key": "simulated"}, row.depth),
            actor={"mode": "system"},
            now=self.now(),
            writer=journal[-1].writer if journal else None,
            writers=frozenset(one.writer for one in fresh),
        )

    def append(
        self, instance: int, expected: int, entries: Sequence[Entry], changes: Changes, writer: str
    ) -> Appended | None:
        """See ``Appender.append``."""
        row, journal = self.instances[instance], self.journals[instance]
        if row.lock_version != expected:
            mine = journal[expected : expected + 1]
            own = bool(mine) and mine[0].writer == writer
            if own and row.lock_version == expected + len(entries):
                return Appended(row.columns["updated_at"], self._more(instance), told=True)
            return None
        for key in changes.inbox:
            stamped = self.inbox[int(key)]
            assert not stamped.applied, f"inbox row {key} is applied twice"
        at = max(self.now(), row.columns["updated_at"] + MICROSECOND)
        row.lock_version += len(entries)
        row.columns |= {**_stamped(changes.instance, at), "updated_at": at}
        journal += [JournalRow(_copied(entry), writer) for entry in entries]
        self._write(self.steps, instance, changes.steps, at)
        self._write(self.waits, instance, changes.waits, at)
        for key, result in changes.inbox.items():
            self.inbox[int(key)].applied = True
            self.inbox[int(key)].result = _plain(result)
        self._write_others(row, changes)
        self.transactions += 1
        for check in self.checks:
            check(instance)
        return Appended(at, self._more(instance), told=True)

    def _write(
        self, table: dict[Any, dict[str, Any]], instance: int, rows: dict[Key, Row], at: datetime
    ) -> None:
        for key, row in rows.items():
            values = _stamped(row.columns, at)
            if row.new:
                assert key not in table, f"row {key} is there already"
                table[key] = {"instance": instance, "id": key}
            table[key] |= {**values, "updated_at": at}

    def _write_others(self, row: InstanceRow, changes: Changes) -> None:
        for step, children in changes.children.items():
            for child in children:
                born = self._born(int(child.definition.version), child.payload, child.ulid)
                born.parent, born.parent_step, born.depth = row.id, step, row.depth + 1
                self.tell(born.id, "start", {"snapshot": str(self.transactions), "after": None})
        for step in dict.fromkeys(changes.orphans):
            for other in list(self.instances.values()):
                if other.parent_step == step and other.columns["status"] not in ENDED:
                    self.tell(other.id, "cancel", {"by": "parent"})
        if changes.instance.get("ended_at") is AT:
            told = {"ulid": row.ulid, "status": row.columns["status"]}
            for wait in list(self.waits.values()):
                named = (wait.get("match") or {}).get("instances", ())
                if wait["status"] == "pending" and row.ulid in named:
                    self.tell(wait["instance"], "child", told)

    def outputs(self, steps: Iterable[Key]) -> dict[Key, Any]:
        """See ``Loader.outputs``."""
        return {key: _plain(self.steps[key].get("output")) for key in steps}

    def inputs(self, steps: Iterable[Key]) -> dict[Key, Any]:
        """See ``Loader.inputs``."""
        found = {key: _plain(self.steps[key].get("input")) for key in steps}
        for key, value in found.items():
            if isinstance(value, dict) and value.get("cut") is True:
                for row in self.journals[self.steps[key]["instance"]]:
                    if row.entry.step == key and "config" in row.entry.data:
                        found[key] = _plain(row.entry.data["config"])
        return found

    def payloads(self, rows: Iterable[Key]) -> dict[Key, Any]:
        """See ``Loader.payloads``."""
        return {key: _plain(self.inbox[int(key)].payload) for key in rows}

    def look(
        self, wait: Wait, accept_from: AcceptFrom, consumed: Iterable[Key]
    ) -> list[StoredEvent]:
        """See ``Looker.look``."""
        taken, match = set(consumed), dict(wait.match or {})
        after = int(accept_from.after or 0)
        seen = int(accept_from.snapshot or 0)
        return [
            StoredEvent(event.id, _plain(event.payload), event.at)
            for event in sorted(self.events.values(), key=lambda event: event.id)
            if event.key == wait.event
            and event.id > after
            and event.number > seen
            and event.id not in taken
            and all(event.payload.get(name) == value for name, value in match.items())
        ][:100]

    def ended(self, ulids: Collection[str]) -> dict[str, Ended]:
        """See ``Awaited.ended``."""
        found: dict[str, Ended] = {}
        for ulid in ulids:
            if ulid not in self.by_ulid:
                found[ulid] = Ended(ulid, "unknown")
                continue
            columns = self.instances[self.by_ulid[ulid]].columns
            if columns["status"] in ENDED:
                found[ulid] = Ended(ulid, columns["status"], code=columns.get("failure_code"))
        return found

    def ended_outputs(self, noted: Iterable[Ended]) -> dict[str, Ended]:
        """See ``Awaited.outputs``."""
        found: dict[str, Ended] = {}
        for ended in noted:
            instance = self.by_ulid.get(ended.ulid)
            ends = [
                step
                for step in self.steps.values()
                if step["instance"] == instance and step["node_type"] == "end"
            ]
            output = _plain(ends[-1].get("output")) if ends else None
            size = 0 if output is None else len(orjson.dumps(output))
            found[ended.ulid] = Ended(ended.ulid, ended.status, output, size, read=True)
        return found

    def expired(self, steps: Iterable[Key]) -> frozenset[Key]:
        """See ``Leases.expired``."""
        now = self.now()
        return frozenset(
            key
            for key in steps
            if self.steps[key]["status"] == "running"
            and (self.steps[key].get("lease_until") or BEGIN) <= now
        )

    def rest(self, step: Key) -> float:
        """See ``Leases.rest``."""
        until = self.steps[step].get("lease_until") or BEGIN
        return max((until - self.now()).total_seconds(), 0.0)

    def renew(self, step: Key, token: str, seconds: float) -> bool:
        """See ``Leases.renew``."""
        row = self.steps[step]
        if row["status"] != "running" or row.get("claim_token") != token:
            return False
        row["lease_until"] = self.now() + timedelta(seconds=seconds)
        return True

    def gone(self, workers: Iterable[str], gap: float) -> frozenset[str]:
        """See ``Workers.gone``."""
        alive = {
            name
            for name, (seen, stopped) in self.workers.items()
            if stopped or seen > self.seconds - gap
        }
        return frozenset(workers) - alive

    # what relays do

    def claim(self, limit: int, wanted: Callable[[str], bool]) -> list[str]:
        """Marks rows that nobody has poked for; returns their instances' ulids."""
        fresh = [
            row
            for row in sorted(self.inbox.values(), key=lambda row: row.id)
            if not row.applied and row.poked_at is None and wanted(row.kind)
        ][:limit]
        return self._mark(fresh)

    def claim_again(self, limit: int) -> list[str]:
        """Marks rows again whose poke led to nothing for a while."""
        late = [
            row
            for row in sorted(self.inbox.values(), key=lambda row: row.id)
            if not row.applied and row.poked_at is not None and row.poked_at < self.seconds - 5
        ][:limit]
        return self._mark(late)

    def _mark(self, rows: list[InboxRow]) -> list[str]:
        for row in rows:
            row.poked_at = self.seconds
        return list(dict.fromkeys(self.instances[row.instance].ulid for row in rows))

    def release(self, ulids: Collection[str]) -> None:
        """Takes marks back."""
        for row in self.inbox.values():
            if not row.applied and self.instances[row.instance].ulid in ulids:
                row.poked_at = None

    def asked_to_cancel(self, ulids: Collection[str]) -> list[str]:
        """Those that somebody has asked to cancel."""
        asked = {r.instance for r in self.inbox.values() if not r.applied and r.kind == "cancel"}
        return [ulid for ulid in ulids if self.by_ulid[ulid] in asked]

    def overdue(self, after: str) -> list[str]:
        """Instances with something due for ten seconds."""
        late = self.now() - timedelta(seconds=10)
        due = {
            wait["instance"]
            for wait in self.waits.values()
            if wait["status"] == "pending" and (wait.get("due_at") or self.now()) < late
        }
        for step in self.steps.values():
            status = step["status"]
            since = step.get("scheduled_for") if status == "retrying" else step["updated_at"]
            if status in ("retrying", "scheduled", "running") and (since or self.now()) < late:
                due.add(step["instance"])
        for wait in self.waits.values():
            named = (wait.get("match") or {}).get("instances", ())
            if wait["status"] == "pending" and self.ended(named):
                due.add(wait["instance"])
        rows = [self.instances[number] for number in due]
        going = [row.ulid for row in rows if row.columns["status"] in ("running", "waiting")]
        return sorted(ulid for ulid in going if ulid > after)

    def match(self) -> int:
        """Writes an inbox row for each instance that waits for an event nobody has matched."""
        fresh = [event for event in self.events.values() if not event.matched]
        for event in fresh:
            event.matched = True
            for wait in list(self.waits.values()):
                fits = wait["status"] == "pending" and wait.get("event_key") == event.key
                match = wait.get("match") or {}
                if fits and all(event.payload.get(n) == v for n, v in match.items()):
                    self.tell(wait["instance"], "event", None, event.id)
        return len(fresh)

    def _more(self, instance: int) -> bool:
        return any(r.instance == instance and not r.applied for r in self.inbox.values())

    def _born(self, version: int, payload: Any, ulid: str) -> InstanceRow:
        number = next(self.numbers)
        columns = {"status": "pending", "updated_at": self.now()}
        row = InstanceRow(number, ulid, version, _plain(payload), columns)
        self.instances[number], self.by_ulid[ulid] = row, number
        self.journals[number] = []
        return row


def _plain(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def _copied(entry: Entry) -> Entry:
    return Entry(entry.kind, entry.node, entry.step, _plain(dict(entry.data)))


def _stamped(columns: dict[str, Any], at: datetime) -> dict[str, Any]:
    return {
        name: at if value is AT else value if isinstance(value, datetime) else _plain(value)
        for name, value in columns.items()
    }
