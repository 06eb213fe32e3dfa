"""``delay``: lets a span of time pass, or waits until a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pydantic import Field

from adapter.graph.nodes.base import FAILURE, SUCCESS, Flaw, NodeConfig
from adapter.graph.timing import DurationTemplate, TimeTemplate, is_template

TYPE: Final = "delay"


class Config(NodeConfig):
    """Exactly one of ``for`` (a duration from the moment the node begins) and ``until`` (a time)."""

    WAITS: ClassVar[bool] = True

    for_: DurationTemplate | None = Field(None, alias="for")
    until: TimeTemplate | None = None

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` only where a template may fail."""
        given = self.for_ or self.until or ""
        return frozenset({SUCCESS, FAILURE} if is_template(given) else {SUCCESS})

    def template(self) -> dict[str, Any]:
        """The time, under the field's own name."""
        if self.for_ is not None:
            return {"for": self.for_}
        return self.given("until")

    def flaws(self) -> Iterator[Flaw]:
        """Neither or both of the two."""
        if (self.for_ is None) is (self.until is None):
            yield Flaw(
                (),
                "delay_time",
                "a delay has exactly one of 'for' and 'until'",
                'give {"for": "PT1H"} or {"until": "2030-01-31T09:00:00Z"}',
            )
