"""Why commands are refused, in words: what stands against it, and what one can do instead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from adapter.errors import AlmanacError, Conflict, NotSupported
from adapter.services.views import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

REFUSALS: Final[dict[str, str]] = {
    "already_paused": "is paused already",
    "already_started": "has started already",
    "ended": "has ended",
    "not_failed": "has not failed, so there is nothing to retry",
    "not_paused": "is not paused, so there is nothing to resume",
    "not_started": "has not begun",
    "not_supported": "is run by a version that does not know the command",
    "nothing_to_retry": "has no failed step that could be tried again",
    "too_many_signals": "keeps as many signals as it may that no wait has taken",
}
"""Why a command is refused: codes of errors, and ``reason`` in the results of inbox rows."""

_TELLING: Final[dict[str, Callable[[str], bool]]] = {
    "ended": lambda status: status in ENDED,
    "not_failed": lambda status: status != "failed",
    "not_paused": lambda status: status != "paused",
}
"""Reasons that are told together with how the instance stands, and whether one fits a status."""

_AFTER_FAILURE: Final = "try it again from the step that failed: almanac retry ULID"
_AFTER_END: Final = "nothing changes it any more; to begin again: almanac start KEY"


@dataclass(frozen=True, slots=True)
class Standing:
    """How an instance stands when a command to it is refused, or when that is told.

    Attributes:
        status: An InstanceStatus.
        ended_at: When it ended, if it has.
        failure_code: Why it failed, if it has.
    """

    status: str
    ended_at: datetime | None = None
    failure_code: str | None = None

    def __str__(self) -> str:
        """As the end of ``instance X ...``: ``it failed with step_failed at 2026-...``."""
        if self.status not in ENDED:
            return f"it is {self.status}"
        how = {"cancelled": "was cancelled"}.get(self.status, self.status)
        code = "" if self.failure_code is None else f" with {self.failure_code}"
        when = f" at {self.ended_at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" if self.ended_at else ""
        return f"it {how}{code}{when}"


def refused(
    ulid: str, kind: str, reason: str, standing: Standing | None = None, **details: Any
) -> AlmanacError:
    """The error for a command that is refused, at once or by the instance.

    Args:
        ulid: The instance.
        kind: The command.
        reason: The code; one that a newer version wrote is passed on.
        standing: How the instance stands, where that is known.
        details: More facts.
    """
    why = REFUSALS.get(reason, f"refuses it: {reason}")
    if standing is not None:
        details |= {"status": standing.status}
        if (fits := _TELLING.get(reason)) is not None:
            since = ";" if fits(standing.status) else " when it got to it; now"
            why += f"{since} {standing}"
            if standing.status in ENDED:
                details |= {"remedy": _remedy(standing)}
    message = f"{kind} refused: instance {ulid} {why}"
    error = NotSupported if reason == NotSupported.code else Conflict
    return error(message, code=reason, ulid=ulid, kind=kind, **details)


def _remedy(standing: Standing) -> str:
    return _AFTER_FAILURE if standing.status == "failed" else _AFTER_END
