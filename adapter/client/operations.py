"""The part of the SDK for operators: what is wrong, and executions from the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.client.commands import Commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.services.diagnosing.report import Report
    from adapter.services.rebuilding import Rebuilt


class Operations(Commands):
    """Unlike all else of the SDK these need Temporal, too: ``temporal_address`` names it."""

    def doctor(self, *, fix: bool = False) -> Report:
        """Examines database, Temporal and clocks; says also what it could not reach.

        Args:
            fix: Mends what needs no decision of anybody's; docs/doctor.md tells what that is.
        """
        from adapter.services.diagnosing.examining import diagnose

        return diagnose(self.settings, fix=fix)

    def rebuild(self, *ulids: str) -> Rebuilt:
        """Sees to it that instances have executions; may be repeated.

        Raises:
            InvalidInput: ``invalid_ulid``.
            NotFound: ``instance_not_found``; nothing was done.
            Unavailable: A server cannot be reached.
            Misconfigured: A setting is missing.
        """
        from adapter.services.rebuilding import rebuild

        return rebuild(self.settings, ulids)

    def rebuild_all(self, progress: Callable[[int, int], None] | None = None) -> Rebuilt:
        """Sees to it that all unfinished instances have executions, in bounded batches.

        Args:
            progress: Told how many of how many instances have been looked at.

        Raises:
            Unavailable: A server cannot be reached; what was done is done, so call it again.
            Misconfigured: A setting is missing.
        """
        from adapter.services.rebuilding import rebuild_all

        if progress is None:
            return rebuild_all(self.settings)
        return rebuild_all(self.settings, progress=progress)
