"""The record in memory: the tables as far as turns, steps and relays use them, and their rules.

Every operation is atomic, as one statement is. Values pass through JSON, as they do in a database.
It is held to the same suite as the real record.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from adapter.errors import NotFound
from adapter.interpreter import entries as kinds
from adapter.interpreter.children import Definition
from adapter.interpreter.env import Facts
from adapter.interpreter.events import Arrived
from adapter.interpreter.projection import AT
from adapter.interpreter.state import ENDED
from adapter.records.append import Appended, RowMissing
from adapter.records.load import MAX_INBOX, BrokenJournal, Loaded
from adapter.testing.rows import EventRow, InboxRow, InstanceRow, JournalRow, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from adapter.graph.compiled import Graph
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.projection import Changes, Row

MICROSECOND = timedelta(microseconds=1)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class MemoryRecord:
    """All rows of one database, and its clock.

    Attributes:
        clock: Seconds that have gone by.
        ahead: Seconds by which the database's clock has jumped.
        farthest: The most that it has ever been ahead.
        checks: Called after each append with the instance that it moved.
        triggers: Versions that events start, by event key.
        late: Step runs whose lease was renewed when it was over.
        log: Told of everything that is written.
    """

    clock: Callable[[], float]
    ahead: float = 0.0
    farthest: float = 0.0
    checks: list[Callable[[InstanceRow], None]] = field(default_factory=list)
    instances: dict[int, InstanceRow] = field(default_factory=dict)
    by_ulid: dict[str, InstanceRow] = field(default_factory=dict)
    steps: dict[Any, dict[str, Any]] = field(default_factory=dict)
    inbox: dict[int, InboxRow] = field(default_factory=dict)
    unpoked: dict[int, InboxRow] = field(default_factory=dict)
    events: dict[int, EventRow] = field(default_factory=dict)
    unmatched: dict[int, EventRow] = field(default_factory=dict)
    graphs: dict[int, Graph] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    triggers: dict[str, list[int]] = field(default_factory=dict)
    workers: dict[str, tuple[float, bool]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    step_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    wait_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    transactions: int = 0
    late: set[Any] = field(default_factory=set)
    log: Callable[[str], None] = lambda _text: None

    @property
    def seconds(self) -> float:
        """What the database's clock shows, in seconds since it was set up."""
        return self.clock() + self.ahead

    @property
    def latest(self) -> float:
        """The latest that any clock of a database or a process can have shown."""
        return self.clock() + self.farthest

    def jump(self, seconds: float) -> None:
        """Sets the database's clock forward, or back."""
        self.ahead += seconds
        self.farthest = max(self.farthest, self.ahead)

    def now(self) -> datetime:
        """The database's clock."""
        return BEGIN + timedelta(seconds=self.seconds)

    # what callers do

    def publish(self, key: str, graph: Graph) -> None:
        """Makes a graph startable under a key."""
        number = next(self.numbers)
        self.graphs[number] = graph
        self.definitions[key] = Definition(number, number, "system")
        config: Any = graph.trigger.config
        if config.type == "event":
            self.triggers.setdefault(config.event, []).append(number)

    def start(self, key: str, payload: Any) -> str:
        """Writes an instance and its start row; returns its ulid."""
        version = int(self.definitions[key].version)
        return self.begin(version, payload, str(self.transactions), None).ulid

    def emit(self, key: str, payload: Any, number: int | None = None) -> int:
        """Writes an event; its id may have been drawn before."""
        self.transactions += 1
        number = next(self.numbers) if number is None else number
        event = EventRow(number, key, plain(payload), self.transactions, self.now())
        self.events[number] = self.unmatched[number] = event
        self.log(f"event {number} {payload}")
        return number

    def tell(
        self,
        instance: int,
        kind: str,
        payload: Any,
        event: int | None = None,
        number: int | None = None,
    ) -> int:
        """Writes an inbox row; returns its id, or 0 for an event that stands there already."""
        row = self.instances[instance]
        if event is not None and any(told.event == event for told in row.inbox.values()):
            return 0
        number = next(self.numbers) if number is None else number
        told = InboxRow(number, instance, kind, plain(payload), event, created_at=self.seconds)
        self.inbox[number] = self.unpoked[number] = told
        row.inbox[number] = row.unapplied[number] = told
        self.log(f"inbox {number} {instance} {kind} {payload}")
        return number

    # what turns do

    def load(self, ulid: str, since: int, writer: str | None) -> Loaded:
        """See ``Loader.load``."""
        row = self.by_ulid.get(ulid)
        if row is None:
            raise NotFound(f"no instance has the ulid {ulid!r}", ulid=ulid)
        journal = row.journal
        if since and (
            since > len(journal) or (writer is not None and journal[since - 1].writer != writer)
        ):
            return self.load(ulid, 0, None)
        if not row.lock_version == (journal[-1].seq if journal else 0) == len(journal):
            raise BrokenJournal(f"instance {ulid}: the journal does not fit {row.lock_version}")
        if not since:
            snapshots = (n for n, one in enumerate(journal) if one.kind == kinds.SNAPSHOT)
            since = max(snapshots, default=0)
        fresh = journal[since:]
        inbox = sorted(row.unapplied.values(), key=lambda told: told.id)[:MAX_INBOX]
        return Loaded(
            id=row.id,
            version=row.version,
            owner_scope="*",
            status=row.status,
            seq=row.lock_version,
            since=since,
            entries=[one.entry for one in fresh],
            inbox=[Arrived(one.id, one.kind, plain(one.payload), one.event) for one in inbox],
            facts=Facts(ulid, row.payload, None, {"id": ulid, "key": "simulated"}, row.depth),
            actor={"mode": "system"},
            now=self.now(),
            writer=journal[-1].writer if journal else None,
            writers=frozenset(one.writer for one in fresh),
        )

    def append(
        self,
        instance: int,
        expected: int,
        entries: Sequence[Entry],
        changes: Changes,
        writer: str,
        waiting: Iterable[int] | None = None,
    ) -> Appended | None:
        """See ``Appender.append``.

        Args:
            instance: The instance's id.
            expected: The ``lock_version`` that the entries were decided on.
            entries: At least one.
            changes: The net change of every row.
            writer: The token of the turn.
            waiting: The instances that waited for this one when the statement began.
        """
        row = self.instances[instance]
        if row.lock_version != expected:
            return self._own(row, expected, entries, writer)
        if not changes.inbox.keys() <= row.unapplied.keys():
            raise RowMissing(f"instance {instance}: not all inbox rows to stamp are there")
        at = max(self.now(), row.columns["updated_at"] + MICROSECOND)
        row.lock_version += len(entries)
        row.columns |= {**_stamped(changes.instance, at), "updated_at": at}
        row.journal += [
            JournalRow.of(seq, entry, writer, at)
            for seq, entry in enumerate(entries, start=expected + 1)
        ]
        for key, step in changes.steps.items():
            self.steps[key] = _written(row.steps, row.id, key, step, at)
        for key, wait in changes.waits.items():
            _written(row.waits, row.id, key, wait, at)
        for key, result in changes.inbox.items():
            told = row.unapplied.pop(int(key))
            self.unpoked.pop(told.id, None)
            told.applied, told.result = True, plain(result)
        told_others = self._write_others(row, changes, at, waiting)
        self.transactions += 1
        self.log(f"append {at} {instance} {expected} {[e.kind for e in entries]} {writer}")
        for check in self.checks:
            check(row)
        return Appended(at, bool(row.unapplied), told=told_others)

    @staticmethod
    def _own(
        row: InstanceRow, expected: int, entries: Sequence[Entry], writer: str
    ) -> Appended | None:
        found = row.journal[expected] if 0 <= expected < len(row.journal) else None
        if found is None or found.writer != writer or found.kind != entries[0].kind:
            return None
        if row.lock_version != expected + len(entries):
            return None
        return Appended(found.at, bool(row.unapplied), told=True)

    def _write_others(
        self, row: InstanceRow, changes: Changes, at: datetime, waiting: Iterable[int] | None
    ) -> bool:
        told = False
        for step, children in changes.children.items():
            for child in children:
                snapshot = str(self.transactions)
                version = int(child.definition.version)
                born = self.begin(version, child.payload, snapshot, None, child.ulid, child.id)
                born.parent_step, born.depth = step, row.depth + 1
                born.columns["updated_at"] = at
                told = True
        for step in dict.fromkeys(changes.orphans):
            for other in list(self.instances.values()):
                if other.parent_step == step and other.status not in ENDED:
                    self.tell(other.id, "cancel", {"by": "parent"})
                    told = True
        if changes.instance.get("ended_at") is AT:
            for number in self.waiting_for(row.id) if waiting is None else waiting:
                self.tell(number, "child", {"ulid": row.ulid, "status": row.status})
                told = True
        return told

    def waiting_for(self, instance: int) -> list[int]:
        """The instances with an open wait that names this one."""
        ulid = self.instances[instance].ulid
        return [
            row.id
            for row in self.instances.values()
            if row.id != instance
            and any(
                wait["status"] == "pending" and ulid in named(wait) for wait in row.waits.values()
            )
        ]

    def match(self) -> int:
        """Brings events that nobody has matched to the waits and triggers that they fit."""
        fresh = sorted(self.unmatched)
        told: dict[tuple[int, Any], int] = {}
        for number in fresh:
            event = self.unmatched.pop(number)
            event.matched = True
            for row in self.instances.values():
                for key, wait in row.waits.items():
                    if wait["status"] == "pending" and fits(wait, event):
                        told.setdefault((row.id, key), event.id)
            for version in self.triggers.get(event.key, ()):
                self.begin(version, event.payload, None, event.id)
        for instance, number in sorted({(key[0], event) for key, event in told.items()}):
            self.tell(instance, "event", None, number)
        return len(fresh)

    def begin(
        self,
        version: int,
        payload: Any,
        snapshot: str | None,
        after: int | None,
        ulid: str | None = None,
        number: Any = None,
    ) -> InstanceRow:
        """Writes an instance with its start row.

        Args:
            version: What it runs.
            payload: Its trigger payload.
            snapshot: What was visible when it started.
            after: The event that has started it.
            ulid: Its public id; its id by default.
            number: Its id; the next number by default.
        """
        number = next(self.numbers) if number is None else int(number)
        columns = {"status": "pending", "steps_count": 0, "updated_at": self.now()}
        row = InstanceRow(number, ulid or f"{number:026}", version, plain(payload), columns)
        self.instances[number] = self.by_ulid[row.ulid] = row
        self.log(f"instance {number} {row.ulid} {version}")
        self.tell(number, "start", {"snapshot": snapshot, "after": after})
        return row


def named(wait: dict[str, Any]) -> Sequence[str]:
    """The instances that a wait names."""
    found: Sequence[str] = (wait.get("match") or {}).get("instances", ())
    return found


def fits(wait: dict[str, Any], event: EventRow) -> bool:
    """Whether a wait is one for this event, by key and match."""
    if wait["kind"] != "event" or wait.get("event_key") != event.key:
        return False
    match = wait.get("match") or {}
    return all(name in event.payload and event.payload[name] == match[name] for name in match)


def _written(
    table: dict[Any, dict[str, Any]], instance: int, key: Any, row: Row, at: datetime
) -> dict[str, Any]:
    if row.new:
        assert key not in table, f"row {key} is there already"
        table[key] = {"instance": instance, "id": key, "created_at": at}
    table[key] |= {**_stamped(row.columns, at), "updated_at": at}
    return table[key]


def _stamped(columns: dict[str, Any], at: datetime) -> dict[str, Any]:
    return {
        name: at if value is AT else value if isinstance(value, datetime) else plain(value)
        for name, value in columns.items()
    }
