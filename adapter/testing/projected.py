"""The documented rows as the journal alone tells them: what the rows are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from adapter.interpreter.projection import AT, project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from adapter.interpreter.entries import Entry
    from adapter.interpreter.projection import Row
    from adapter.interpreter.state import Key, State
    from adapter.testing.rows import InstanceRow

ONLY_IN_ROWS: Final = frozenset(
    {
        "condition",
        "error_message",
        "failure_message",
        "input",
        "output",
        "payload",
        "resume_signal",
    }
)
"""Columns that the journal refers to and does not repeat."""

RENEWED: Final = "lease_until"
"""Renewed without an entry; only its beginning stands in the journal."""


class Projected:
    """The rows of one instance, projected from its journal entry by entry."""

    def __init__(self) -> None:
        self.instance: dict[str, Any] = {"status": "pending"}
        self.steps: dict[Key, dict[str, Any]] = {}
        self.waits: dict[Key, dict[str, Any]] = {}

    def add(
        self, before: State, entry: Entry, after: State, ulid: str, writer: str, at: datetime
    ) -> set[Key]:
        """Takes one more entry.

        Args:
            before: The state before it.
            entry: As the journal has it.
            after: The state with it.
            ulid: The instance's public id.
            writer: Who wrote the entry.
            at: When.

        Returns:
            The step runs and waits that it touches.
        """
        changes = project(before, [entry], after, ulid=ulid, writer=writer)
        self.instance |= _timed(changes.instance, at)
        self._merge(self.steps, changes.steps, at)
        self._merge(self.waits, changes.waits, at)
        return {*changes.steps, *changes.waits}

    @staticmethod
    def _merge(table: dict[Key, dict[str, Any]], changed: dict[Key, Row], at: datetime) -> None:
        for key, row in changed.items():
            known = table.setdefault(key, {})
            assert row.new != bool(known), f"row {key} is opened twice, or was never opened"
            known |= {**_timed(row.columns, at), "updated_at": at}

    def differences(self, row: InstanceRow, touched: set[Key] | None = None) -> Iterator[str]:
        """Says where the documented rows are not what the journal tells.

        Args:
            row: The instance with its rows.
            touched: Only these step runs and waits; all by default.
        """
        yield from _compared("instance", self.instance, row.columns)
        tables = (("step", self.steps, row.steps), ("wait", self.waits, row.waits))
        for name, mine, theirs in tables:
            if mine.keys() != theirs.keys():
                yield f"{name} rows {sorted(mine.keys() ^ theirs.keys())} are not in both"
                continue
            for key in mine if touched is None else touched & mine.keys():
                yield from _compared(f"{name} {key}", mine[key], theirs[key])


def _timed(columns: dict[str, Any], at: datetime) -> dict[str, Any]:
    return {
        name: at if value is AT else value
        for name, value in columns.items()
        if name not in ONLY_IN_ROWS and name != RENEWED
    }


def _compared(what: str, mine: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    for name, value in mine.items():
        if theirs.get(name) != value:
            yield f"{name} of {what} is {theirs.get(name)!r}, the journal tells {value!r}"
