"""``delay``: lets a span of time pass, or waits until a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from adapter.graph.configs import FAILURE, SUCCESS, Flaw, NodeConfig
from adapter.graph.timing import (
    DurationTemplate,
    TimeTemplate,
    is_template,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE: Final = "delay"


class Config(NodeConfig):
    """Exactly one of ``for`` (a duration from when the node begins) and ``until`` (a time)."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("for", "until")

    for_: DurationTemplate | None = Field(None, alias="for")
    until: TimeTemplate | None = None

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` only where a template may fail."""
        may_fail = any(map(is_template, self.template().values()))
        return frozenset({SUCCESS, FAILURE} if may_fail else {SUCCESS})

    def waits(self) -> bool:
        """Always."""
        return True

    def flaws(self) -> Iterator[Flaw]:
        """Neither or both of the two."""
        if (self.for_ is None) is (self.until is None):
            yield Flaw(
                (),
                "delay_time",
                "a delay has exactly one of 'for' and 'until'",
                'give {"for": "PT1H"} or {"until": "2030-01-31T09:00:00Z"}',
            )
