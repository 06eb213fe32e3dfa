"""What a check is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from adapter.records.health import Seen
    from adapter.services.diagnosing.examination import Examination
    from adapter.services.diagnosing.report import Severity

DATABASE: Final = "database"
SCHEMA: Final = "schema"
TEMPORAL: Final = "temporal"
"""What a check may need, and what is missing once a check that provides it has found something."""

SAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class Found:
    """What a check has found.

    Attributes:
        ids: All of them, oldest first, as far as they were counted.
        oldest_at: Since when, for the oldest.
        at_least: Whether there may be more.
        told: What is known beside the check's own meaning.
        named: Whether the ids are instances, which the command can name.
    """

    ids: tuple[str, ...] = ()
    oldest_at: datetime | None = None
    at_least: bool = False
    told: str = ""
    named: bool = True

    @classmethod
    def of(cls, seen: Sequence[Seen], most: int, *, told: str = "", named: bool = True) -> Found:
        """What a question found, cut to how many are counted."""
        kept = seen[:most]
        return cls(
            tuple(one.id for one in kept),
            kept[0].at if kept else None,
            at_least=len(seen) > most,
            told=told,
            named=named,
        )


Find = Callable[["Examination"], Found | None]
Mend = Callable[["Examination", Found], str]


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        code: Stable, in snake case.
        severity: Of what it finds.
        meaning: What it means when it finds something.
        command: What repairs it; ``ULID`` stands for the instances found.
        find: Looks, and returns None when all is well; None for what connecting finds.
        mend: What ``--fix`` does, and what it says of it; None when it must not do anything.
        needs: What has to be there for it.
        provides: What is not there when it finds something.
        grows: Seconds of age from which on a warning is an error; None for never.
    """

    code: str
    severity: Severity
    meaning: str
    command: str
    find: Find | None
    mend: Mend | None = None
    needs: frozenset[str] = field(default=frozenset({DATABASE, SCHEMA}))
    provides: str | None = None
    grows: float | None = None
