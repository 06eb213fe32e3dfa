"""The part of the SDK that commands running instances, and tells what became of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import SQLAlchemyError

from adapter.client.connected import Connected
from adapter.records.nudging import nudge_relays
from adapter.services import applying, commanding
from adapter.services.awaiting import accept_timeout, wait_for_applied

if TYPE_CHECKING:
    from datetime import timedelta

    from adapter.services.applying import Applied
    from adapter.services.commanding import Receipt
    from adapter.services.joining import Joined
    from adapter.services.morphs import RefLike
    from adapter.services.views import InboxView, Page


class Commands(Connected):
    """Commands are rows: written at once or with the caller's transaction, applied by a worker.

    Each one returns a receipt, by which ``applied`` and ``wait_applied`` tell whether the instance
    did it or refused. What it would refuse in any case is refused at once: ``Conflict`` with the
    code ``ended``, ``already_paused``, ``not_paused`` or ``not_failed``. ``sender`` is kept.
    """

    def signal(
        self,
        ulid: str,
        name: str,
        payload: dict[str, Any] | None = None,
        correlation: str | None = None,
        *,
        sender: RefLike | None = None,
        connection: Joined | None = None,
    ) -> Receipt:
        """Sends a signal to an instance; see ``adapter.services.commanding.signal``."""
        with self._single(connection) as joined:
            return commanding.signal(
                joined,
                self.settings,
                ulid,
                name,
                payload,
                correlation=correlation,
                sender=sender,
            )

    def pause(
        self,
        ulid: str,
        reason: str | None = None,
        *,
        sender: RefLike | None = None,
        connection: Joined | None = None,
    ) -> Receipt:
        """Pauses an instance; see ``adapter.services.commanding.pause``."""
        with self._single(connection) as joined:
            return commanding.pause(joined, self.settings, ulid, reason=reason, sender=sender)

    def resume(
        self, ulid: str, *, sender: RefLike | None = None, connection: Joined | None = None
    ) -> Receipt:
        """Lets a paused instance go on; see ``adapter.services.commanding.resume``."""
        with self._single(connection) as joined:
            return commanding.resume(joined, self.settings, ulid, sender=sender)

    def cancel(
        self,
        ulid: str,
        reason: str | None = None,
        *,
        sender: RefLike | None = None,
        connection: Joined | None = None,
    ) -> Receipt:
        """Cancels an instance; see ``adapter.services.commanding.cancel``."""
        with self._single(connection) as joined:
            return commanding.cancel(joined, self.settings, ulid, reason=reason, sender=sender)

    def retry(
        self, ulid: str, *, sender: RefLike | None = None, connection: Joined | None = None
    ) -> Receipt:
        """Tries a failed instance again; see ``adapter.services.commanding.retry``."""
        with self._single(connection) as joined:
            return commanding.retry(joined, self.settings, ulid, sender=sender)

    def applied(self, receipt: Receipt, *, connection: Joined | None = None) -> Applied | None:
        """Returns what the instance made of a command, None while it has not got to it.

        Raises:
            NotFound: ``command_not_found``: the row is not there, or not committed.
        """
        with self._read(connection) as joined:
            return applying.applied(joined, self.settings, receipt)

    def wait_applied(self, receipt: Receipt, timeout: float | timedelta = 60) -> Applied:
        """Waits until the instance has got to a command, and returns what it made of it.

        The transaction that wrote the command must have been committed. A refusal is returned, not
        raised; ``Applied.as_error`` makes an error of it.

        Raises:
            InvalidInput: ``invalid_timeout``.
            NotFound: ``command_not_found``.
            Unavailable: ``wait_timeout``: not applied in time; it stays in the inbox.
        """
        seconds = accept_timeout(timeout)
        # A command of the caller's own transaction has told no relay so far.
        with suppress(SQLAlchemyError), self._database().begin() as own:
            nudge_relays(own)
        return wait_for_applied(
            lambda: self.applied(receipt), receipt, seconds, living=self._living
        )

    def awaited_signals(self, ulid: str, *, connection: Joined | None = None) -> tuple[str, ...]:
        """Returns the names of the signals that an instance has open waits for, sorted.

        Others are kept until a step waits for them; ``show`` lists them.
        """
        with self._read(connection) as joined:
            return applying.awaited_signals(joined, self.settings, ulid)

    def inbox(
        self,
        ulid: str,
        *,
        unapplied: bool = False,
        limit: int = 50,
        cursor: str | None = None,
        connection: Joined | None = None,
    ) -> Page[InboxView]:
        """Returns what an instance was told, newest last; see ``adapter.services.applying``."""
        with self._read(connection) as joined:
            return applying.inbox(
                joined, self.settings, ulid, unapplied=unapplied, limit=limit, cursor=cursor
            )
