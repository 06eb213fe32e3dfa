"""Rows of the record in memory: the columns that turns, steps and relays use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from adapter.interpreter.entries import Entry
    from adapter.interpreter.state import Key


@dataclass(slots=True)
class InstanceRow:
    """One row of ``workflow_instances``."""

    id: int
    ulid: str
    version: int
    payload: Any
    columns: dict[str, Any]
    lock_version: int = 0
    parent: int | None = None
    parent_step: Key | None = None
    depth: int = 0


@dataclass(slots=True)
class JournalRow:
    """One row of ``workflow_journal``."""

    entry: Entry
    writer: str


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
class EventRow:
    """One row of ``workflow_events``; ``number`` stands for its transaction id."""

    id: int
    key: str
    payload: Any
    number: int
    at: datetime
    matched: bool = False
