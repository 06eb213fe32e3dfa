"""What instances made of commands, and what their inboxes hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from adapter.errors import AlmanacError, InvalidInput, NotFound
from adapter.records.commands import commands_of
from adapter.records.kept import kept_of
from adapter.services.joining import Joined, connection_of
from adapter.services.reading import accept_ulid, status_of
from adapter.services.refusals import Standing, refused
from adapter.services.rows import inbox_of
from adapter.services.views import InboxView, Page, View

if TYPE_CHECKING:
    from datetime import datetime

    from adapter.services.commanding import Receipt
    from adapter.settings import Settings

MAX_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Applied(View):
    """What an instance made of a command.

    Attributes:
        id: The inbox row's id.
        ulid: The instance's public id.
        kind: The command.
        status: ``done`` or ``refused``.
        reason: The code of why it was refused; None when it was done.
        applied_at: When.
        kept: Of a signal: whether no wait has taken it yet.
        standing: How the instance stands now.
    """

    id: int | str
    ulid: str
    kind: str
    status: str
    reason: str | None
    applied_at: datetime
    kept: bool
    standing: Standing

    @property
    def done(self) -> bool:
        """Whether the instance did it."""
        return self.status == "done"

    def as_error(self) -> AlmanacError | None:
        """The error that tells why it was refused, with the reason as its code; None when done."""
        if self.done:
            return None
        reason = self.reason or "conflict"
        return refused(self.ulid, self.kind, reason, self.standing, id=self.id)


def applied(joined: Joined, settings: Settings, receipt: Receipt) -> Applied | None:
    """Returns what an instance made of a command, None while it has not got to it.

    Args:
        joined: An open connection or session.
        settings: Names and key types.
        receipt: What the command returned.

    Raises:
        NotFound: ``command_not_found``: the row is not there.
    """
    known, connection = accept_ulid(receipt.ulid), connection_of(joined)
    row = commands_of(settings).result(connection, known, receipt.id)
    if row is None:
        raise NotFound(
            f"instance {receipt.ulid} has no inbox row {receipt.id}; was the transaction that wrote"
            " it committed, or the instance pruned?",
            code="command_not_found",
            ulid=receipt.ulid,
            id=receipt.id,
        )
    if row.applied_at is None:
        return None
    return Applied(
        id=receipt.id,
        ulid=receipt.ulid,
        kind=receipt.kind,
        status=row.status or "done",
        reason=row.reason,
        applied_at=row.applied_at,
        kept=receipt.kind == "signal" and kept_of(settings).is_kept(connection, known, receipt.id),
        standing=Standing(row.instance_status, row.ended_at, row.failure_code),
    )


def awaited_signals(joined: Joined, settings: Settings, ulid: str) -> tuple[str, ...]:
    """Returns the names of the signals that an instance has open waits for, sorted.

    Raises:
        InvalidInput: ``invalid_ulid``.
        NotFound: ``instance_not_found``.
    """
    known, connection = accept_ulid(ulid), connection_of(joined)
    found = tuple(kept_of(settings).awaited(connection, known))
    if not found:
        status_of(joined, settings, known)
    return found


def inbox(
    joined: Joined,
    settings: Settings,
    ulid: str,
    *,
    unapplied: bool = False,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[InboxView]:
    """Returns what an instance was told: the newest rows, in the order in which they came.

    Args:
        joined: An open connection or session.
        settings: Names and key types.
        ulid: The instance's public id.
        unapplied: Only what it has not got to.
        limit: Items of a page, 1 to 500.
        cursor: ``next`` of the page before, which leads to older rows.

    Raises:
        InvalidInput: ``invalid_ulid``; ``invalid_filter`` for the limit or the cursor.
        NotFound: ``instance_not_found``.
    """
    most: Any = limit
    if not isinstance(most, int) or not 1 <= most <= MAX_PAGE:
        raise InvalidInput(f"a page has 1 to {MAX_PAGE} rows, not {limit!r:.80}", code=_FILTER)
    before = None if cursor is None else _cursor(cursor, settings)
    known, connection = accept_ulid(ulid), connection_of(joined)
    rows = commands_of(settings).page(
        connection, known, most=limit + 1, before=before, unapplied=unapplied
    )
    if not rows:
        # Every instance that was started has rows, so this look is a rare one.
        status_of(joined, settings, known)
    signalled = any(row.kind == "signal" and row.applied_at is not None for row in rows)
    kept = kept_of(settings).ids(connection, known) if signalled else frozenset()
    items = tuple(inbox_of(row, kept) for row in rows[-limit:])
    return Page(items, str(items[0].id) if len(rows) > limit else None)


_FILTER: Final = "invalid_filter"


def _cursor(value: Any, settings: Settings) -> str:
    kind = settings.primary_key_type
    try:
        if kind == "ulid":
            return accept_ulid(value)
        if kind == "uuid":
            return str(UUID(value))
        if str(value).isascii() and 0 <= int(value) < 2**63:
            return str(int(value))
    except (AttributeError, TypeError, ValueError, InvalidInput):
        pass
    raise InvalidInput(f"{value!r:.80} is not the cursor of a page", code=_FILTER)
