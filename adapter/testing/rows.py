"""Rows of the record in memory: the columns that turns, steps and relays use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from adapter.interpreter.entries import Entry

if TYPE_CHECKING:
    from datetime import datetime

    from adapter.interpreter.state import Key


@dataclass(slots=True)
class JournalRow:
    """One row of ``workflow_journal``; ``data`` as the database keeps it, as text."""

    seq: int
    kind: str
    node: str | None
    step: Key | None
    data: bytes
    writer: str
    at: datetime

    @classmethod
    def of(cls, seq: int, entry: Entry, writer: str, at: datetime) -> JournalRow:
        """The row of an entry."""
        data = orjson.dumps(dict(entry.data))
        return cls(seq, entry.kind, entry.node, entry.step, data, writer, at)

    @property
    def entry(self) -> Entry:
        """The entry as a load gives it: without what only documented rows keep."""
        return Entry(self.kind, self.node, self.step, orjson.loads(self.data))


@dataclass(slots=True)
class InboxRow:
    """One row of ``workflow_inbox``; times in seconds of the database's clock."""

    id: int
    instance: int
    kind: str
    payload: Any
    event: int | None = None
    poked_at: float | None = None
    applied: bool = False
    result: Any = None
    created_at: float = 0.0


@dataclass(slots=True)
class InstanceRow:
    """One row of ``workflow_instances``, with the rows of other tables that belong to it."""

    id: int
    ulid: str
    version: int
    payload: Any
    columns: dict[str, Any]
    lock_version: int = 0
    parent_step: Key | None = None
    depth: int = 0
    journal: list[JournalRow] = field(default_factory=list)
    steps: dict[Key, dict[str, Any]] = field(default_factory=dict)
    waits: dict[Key, dict[str, Any]] = field(default_factory=dict)
    inbox: dict[int, InboxRow] = field(default_factory=dict)
    unapplied: dict[int, InboxRow] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """Its status."""
        return str(self.columns["status"])


@dataclass(slots=True)
class EventRow:
    """One row of ``workflow_events``; ``number`` stands for its transaction id."""

    id: int
    key: str
    payload: Any
    number: int
    at: datetime
    matched: bool = False


def plain(value: Any) -> Any:
    """A value as it comes back from a database."""
    return orjson.loads(orjson.dumps(value))
