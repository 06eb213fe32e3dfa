"""``wait``: waits for an event, for a time, or for whichever comes first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from adapter.graph.document import Outcome
from adapter.graph.nodes.base import FAILURE, SUCCESS, Flaw, NodeConfig
from adapter.graph.timing import DurationTemplate, TimeTemplate, is_template

TYPE: Final = "wait"

MatchField = Annotated[str, Field(min_length=1, max_length=191)]


class Config(NodeConfig):
    """An event that matches, or a time-out.

    The event's payload must hold every field of ``match`` with an equal value, and then meet the
    condition, which reads it as ``event``. The outcome is ``success`` with the payload as output, or
    ``outcome`` when the time comes first. Without ``event`` it waits for the time alone.
    """

    WAITS: ClassVar[bool] = True

    event: str | None = Field(None, min_length=1, max_length=191)
    match: dict[MatchField, Any] | None = Field(None, max_length=16)
    condition_: dict[str, Any] | str | None = Field(None, alias="condition")
    timeout: DurationTemplate | None = None
    until: TimeTemplate | None = None
    outcome: Outcome = "timed_out"

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` only where an expression may fail."""
        found = {SUCCESS} if self.event is not None else set()
        if self.timeout is not None or self.until is not None:
            found.add(self.outcome)
        times = (self.timeout or "", self.until or "")
        if self.match or self.condition_ is not None or any(map(is_template, times)):
            found.add(FAILURE)
        return frozenset(found)

    def template(self) -> dict[str, Any]:
        """The match and the times."""
        return self.given("match", "timeout", "until")

    def condition(self) -> Any:
        """The condition on the event."""
        return self.condition_

    @property
    def condition_sees_event(self) -> bool:
        """It does: the payload is ``event``."""
        return True

    def flaws(self) -> Iterator[Flaw]:
        """Nothing to wait for, two times, or matching without an event."""
        if self.event is None:
            for field, value in (("match", self.match), ("condition", self.condition_)):
                if value is not None:
                    yield Flaw(
                        (field,),
                        "field_not_allowed",
                        f"{field!r} needs an 'event' to look at",
                        "name the event, or leave the field out",
                    )
            if self.timeout is None and self.until is None:
                yield Flaw(
                    (),
                    "nothing_to_wait_for",
                    "the wait has neither an event nor a time",
                    "give 'event', 'timeout' or 'until'",
                )
        if self.timeout is not None and self.until is not None:
            yield Flaw(
                ("until",),
                "two_times",
                "a wait has at most one of 'timeout' and 'until'",
                "leave one of them out",
            )
