"""What checks are given: the database, the engine, a clock, and what was compared already."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from adapter.errors import Unavailable
from adapter.records.health import MOST
from adapter.services.diagnosing.census import Census, take_census
from adapter.services.diagnosing.check import Found
from adapter.services.diagnosing.poking import poke

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapter.records.health import Examined, Seen
    from adapter.services.diagnosing.asking import Asking
    from adapter.settings import Settings

STATEMENT: Final = 10.0
"""Seconds that one statement may take."""

CALL: Final = 10.0
"""Seconds that one call to Temporal may take; it is tried twice."""

SPARE: Final = 30.0
"""Seconds beyond the sweep's interval until what the sweep mends counts as a fault."""

MOST_FIXED: Final = 1_000
"""Instances that one ``--fix`` pokes, cancels or closes for one finding."""


class Examination:
    """One examination.

    Args:
        settings: Of the Almanac that is examined.
        database: Answers questions.
        engine: Answers others; None while it cannot be reached.
        clock: This process's, as seconds since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        database: Examined,
        engine: Asking | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.database = database
        self.engine = engine
        self.clock = clock

    @property
    def patience(self) -> float:
        """Seconds that the relay and its sweep are left to mend by themselves."""
        return self.settings.worker.sweep_interval.total_seconds() + SPARE

    @cached_property
    def census(self) -> Census:
        """Unfinished instances and executions, compared."""
        assert self.engine is not None
        return take_census(self.settings, self.database, self.engine)

    def seen(
        self, query: str, *, told: str = "", named: bool = True, **values: object
    ) -> Found | None:
        """What a question finds; None for nothing."""
        found = self.database.seen(query, **values)
        return Found.of(found, MOST, told=told, named=named) if found else None

    @staticmethod
    def found(seen: Sequence[Seen], *, at_least: bool) -> Found | None:
        """What a comparison has found; None for nothing."""
        if not seen:
            return None
        found = Found.of(sorted(seen, key=lambda one: one.at), MOST)
        return replace(found, at_least=at_least or found.at_least)

    def late(self, query: str, *, factor: float = 1.0, named: bool = True) -> Found | None:
        """What a question finds that the relay has been left the time to mend."""
        return self.seen(query, named=named, patience=self.patience * factor)

    def poke(self, found: Found) -> str:
        """Pokes what was found; what to say of it.

        Raises:
            Unavailable: Temporal does not answer.
        """
        if self.engine is None:
            raise Unavailable(
                "Temporal cannot be reached, so nothing was poked", code="temporal_unavailable"
            )
        chosen = found.ids[:MOST_FIXED]
        done = poke(self.settings, self.database, self.engine, chosen)
        said = f"poked {len(done.poked)} of {len(found.ids)}"
        if done.refused:
            said += (
                f"; Temporal did not take {len(done.refused)}: {next(iter(done.refused.values()))}"
            )
        return said
