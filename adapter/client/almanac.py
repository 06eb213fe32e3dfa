"""The SDK: ``Almanac`` publishes, starts, commands, emits, reads over one PostgreSQL database.

    almanac = Almanac()                       # settings from ALMANAC_* variables
    almanac.publish(document)
    started = almanac.start("permits", {"case": "A-17"})
    almanac.wait(started.ulid, timeout=30)

It needs the database only: a command is a row, and the workers act on it. With ``connection`` a
call joins the caller's transaction, so what the host writes and what Almanac is told are committed
together or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adapter.client.operations import Operations
from adapter.execution.registry import Registry, default_registry
from adapter.graph.validation import Finding, validate
from adapter.records.nudging import EndListener
from adapter.services import emitting, explaining, listening, publishing, reading, starting
from adapter.services.awaiting import accept_timeout, wait_for_end
from adapter.settings import Settings

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from adapter.graph.arguments import Parameters
    from adapter.services.explaining import WhyView
    from adapter.services.joining import Joined
    from adapter.services.listening import Listeners
    from adapter.services.morphs import RefLike
    from adapter.services.publishing import Published
    from adapter.services.starting import Started
    from adapter.services.views import InstanceSummary, InstanceView, Page

Document = Mapping[str, Any] | str | bytes


class Almanac(Operations):
    """One Almanac: its database, and the actions that documents may name.

    Safe to share between threads. It connects when it is first used; after a fork the child opens
    connections of its own. Errors are those of ``adapter.errors``; when one is raised by a call
    without ``connection``, nothing was written.

    Args:
        settings: Read from ``ALMANAC_*`` variables when None.
        registry: Documents are checked against its actions.
    """

    def __init__(
        self, settings: Settings | None = None, *, registry: Registry = default_registry
    ) -> None:
        super().__init__(Settings() if settings is None else settings)
        self.registry = registry

    def migrate(self) -> list[str]:
        """Brings the database forward to the newest revision; returns what was applied.

        Raises:
            Misconfigured: The settings do not fit the database.
            Unavailable: It cannot be reached.
        """
        from adapter.records.migrating import upgrade

        return upgrade(self._url(), self.settings)

    def validate(self, document: Document, *, check_actions: bool = True) -> list[Finding]:
        """Returns everything that is wrong with a document, errors and warnings; no database.

        Args:
            document: The document, or its JSON text.
            check_actions: Whether actions must be in the registry, and fit their handlers.
        """
        return validate(
            document, known_actions=self._actions(check_actions), limits=self.settings.limits
        )

    def publish(
        self,
        document: Document,
        *,
        owner: RefLike | None = None,
        expected_checksum: str | None = None,
        publisher: RefLike | None = None,
        check_actions: bool = True,
        connection: Joined | None = None,
    ) -> Published:
        """Publishes a document; see ``adapter.services.publishing.publish``.

        Args:
            document: The document, or its JSON text.
            owner: Whose definition it is.
            expected_checksum: The current version's, or None not to ask.
            publisher: Who publishes.
            check_actions: False for a process that has no handlers: actions are not checked.
            connection: Joined instead of a transaction of its own.
        """
        with self._joined(connection) as joined:
            return publishing.publish(
                joined,
                self.settings,
                document,
                owner=owner,
                expected_checksum=expected_checksum,
                publisher=publisher,
                known_actions=self._actions(check_actions),
            )

    def start(
        self,
        key: str,
        payload: Any = None,
        *,
        owner: RefLike | None = None,
        subject: RefLike | None = None,
        starter: RefLike | None = None,
        actor_mode: str | None = None,
        idempotency_key: str | None = None,
        idempotency_ttl: timedelta | str | None = None,
        connection: Joined | None = None,
    ) -> Started:
        """Starts an instance; see ``adapter.services.starting.start``."""
        with self._single(connection) as joined:
            return starting.start(
                joined,
                self.settings,
                key,
                payload,
                owner=owner,
                subject=subject,
                starter=starter,
                actor_mode=actor_mode,
                idempotency_key=idempotency_key,
                idempotency_ttl=idempotency_ttl,
            )

    def start_many(
        self,
        key: str,
        payloads: Sequence[Any],
        *,
        owner: RefLike | None = None,
        starter: RefLike | None = None,
        actor_mode: str | None = None,
        connection: Joined | None = None,
    ) -> list[Started]:
        """Starts an instance for each payload, all or none; far faster than one by one."""
        with self._telling(connection) as joined:
            return starting.start_many(
                joined,
                self.settings,
                key,
                payloads,
                owner=owner,
                starter=starter,
                actor_mode=actor_mode,
            )

    def emit(
        self,
        event_key: str,
        payload: dict[str, Any],
        *,
        owner: RefLike | None = None,
        connection: Joined | None = None,
    ) -> int | str:
        """Emits an event and returns its id; see ``adapter.services.emitting.emit``."""
        with self._single(connection) as joined:
            return emitting.emit(joined, self.settings, event_key, payload, owner=owner)

    def emit_many(
        self,
        events: Sequence[tuple[str, dict[str, Any]]],
        *,
        owner: RefLike | None = None,
        connection: Joined | None = None,
    ) -> list[int | str]:
        """Emits (key, payload) pairs in the order given, all or none; returns their ids."""
        with self._telling(connection) as joined:
            return emitting.emit_many(joined, self.settings, events, owner=owner)

    def listeners(
        self, event_key: str, *, owner: RefLike | None = None, connection: Joined | None = None
    ) -> Listeners:
        """Returns who listens to events with a key; see ``adapter.services.listening``."""
        with self._read(connection) as joined:
            return listening.listeners(joined, self.settings, event_key, owner=owner)

    def show(
        self, ulid: str, *, most: int = reading.TIMELINE, connection: Joined | None = None
    ) -> InstanceView:
        """Returns an instance with its timeline, all parts as of one moment.

        Args:
            ulid: The instance's public id.
            most: How many step runs, waits, edges, children and effects, the newest ones.
            connection: Read through this one instead.
        """
        with self._read(connection) as joined:
            return reading.show(joined, self.settings, ulid, most=most)

    def explain(
        self, ulid: str, *, most: int = reading.TIMELINE, connection: Joined | None = None
    ) -> tuple[WhyView, ...]:
        """Returns why edges with conditions were taken, or not; ``adapter.services.explaining``.

        Args:
            ulid: The instance's public id.
            most: How many choices, the newest ones.
            connection: Read through this one instead.
        """
        with self._read(connection) as joined:
            return explaining.explain(joined, self.settings, ulid, most=most)

    def list(
        self,
        *,
        key: str | None = None,
        status: str | None = None,
        owner: RefLike | None = None,
        subject: RefLike | None = None,
        parent: str | None = None,
        top: bool = False,
        since: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
        connection: Joined | None = None,
    ) -> Page[InstanceSummary]:
        """Returns a page of instances, newest first; see ``adapter.services.reading``."""
        with self._read(connection) as joined:
            return reading.list_instances(
                joined,
                self.settings,
                key=key,
                status=status,
                owner=owner,
                subject=subject,
                parent=parent,
                top=top,
                since=since,
                limit=limit,
                cursor=cursor,
            )

    def wait(
        self, ulid: str, timeout: float | timedelta = 60, *, most: int = reading.TIMELINE
    ) -> InstanceView:
        """Waits until an instance has ended, and returns it.

        Until then only its status is read, and its timeline once at the end.

        Args:
            ulid: The instance's public id.
            timeout: How long to wait, in seconds.
            most: As for ``show``; a low number makes the end cheap to read.

        Raises:
            InvalidInput: ``invalid_ulid``, ``invalid_timeout``, ``invalid_filter``.
            Unavailable: ``wait_timeout``: it has not ended in time.
        """
        known, seconds = reading.accept_ulid(ulid), accept_timeout(timeout)
        reading.accept_most(most)

        def look() -> str:
            with self._read(None) as joined:
                return reading.status_of(joined, self.settings, known)

        with EndListener(self.settings, known) as listener:
            wait_for_end(look, known, seconds, living=self._living, sleep=listener.pause)
        return self.show(known, most=most)

    def _actions(self, check: bool) -> dict[str, Parameters] | None:
        return self.registry.parameters() if check else None
