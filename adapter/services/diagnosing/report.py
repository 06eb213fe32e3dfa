"""What doctor says: findings with stable codes, what was done about them, what it could not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from adapter.services.views import View

if TYPE_CHECKING:
    from datetime import datetime

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding(View):
    """One thing that is wrong.

    Attributes:
        code: Stable; docs/doctor.md lists them.
        severity: ``error``: work stands still, or the record cannot be trusted; ``warning``: look.
        count: How many.
        at_least: Whether there may be more than were counted.
        oldest_at: Since when, for the oldest one; None where there is no such time.
        age: The same as seconds.
        samples: Up to five of them: ulids of instances unless the meaning says otherwise.
        meaning: What it means, in a sentence or two.
        command: The command that repairs it.
        fixable: Whether ``--fix`` does something about it.
    """

    code: str
    severity: Severity
    count: int
    at_least: bool
    oldest_at: datetime | None
    age: float | None
    samples: tuple[str, ...]
    meaning: str
    command: str
    fixable: bool


@dataclass(frozen=True, slots=True)
class Unseen(View):
    """A check that could not be carried out.

    Attributes:
        code: Of the check.
        reason: Why.
        failed: False when it was left out because of another finding.
    """

    code: str
    reason: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Fix(View):
    """What was done about a finding.

    Attributes:
        code: Of the finding.
        done: What, in words.
        failed: Whether it could not be done.
    """

    code: str
    done: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Report(View):
    """All that doctor found in one examination; after a fix, what was left.

    Attributes:
        status: ``healthy``, ``warnings`` or ``errors``; a check that failed is an error.
        at: When, by this process's clock.
        checked: The codes of the checks that were carried out.
        findings: Errors first.
        unseen: The checks that were not.
        fixes: What was done.
    """

    status: str
    at: datetime
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    unseen: tuple[Unseen, ...]
    fixes: tuple[Fix, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing was found and everything was seen."""
        return self.status == "healthy"


def status_of(findings: tuple[Finding, ...], unseen: tuple[Unseen, ...]) -> str:
    """The status of a report with these."""
    if any(one.severity == "error" for one in findings) or any(one.failed for one in unseen):
        return "errors"
    return "warnings" if findings or unseen else "healthy"
