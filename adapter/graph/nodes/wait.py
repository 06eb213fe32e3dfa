"""``wait``: waits for an event, for a time, or for whichever comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import Field

from adapter.graph.configs import FAILURE, SUCCESS, Flaw, NodeConfig
from adapter.graph.document import (  # noqa: TC001 - pydantic resolves them
    ConditionJson,
    EventKey,
    Outcome,
)
from adapter.graph.timing import (
    DurationTemplate,
    TimeTemplate,
    is_template,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE: Final = "wait"

MatchField = Annotated[str, Field(min_length=1, max_length=191)]


class Config(NodeConfig):
    """An event that matches, or a time.

    The event's payload must hold every field of ``match`` with an equal value, and then meet the
    condition, which reads it as ``event``. The outcome is ``success`` with the payload as output,
    or ``outcome`` when the time comes first. Without ``event`` it waits for the time alone, and the
    outcome is ``success``. With both ``timeout`` and ``until`` the earlier one counts.
    """

    TEMPLATES: ClassVar[tuple[str, ...]] = ("match", "timeout", "until")

    event: EventKey | None = None
    match: dict[MatchField, Any] | None = Field(None, max_length=16)
    condition_: ConditionJson | None = Field(None, alias="condition")
    timeout: DurationTemplate | None = None
    until: TimeTemplate | None = None
    outcome: Outcome = "timed_out"

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` only where a template may fail."""
        found = {SUCCESS}
        times = [time for time in (self.timeout, self.until) if time is not None]
        if self.event is not None and times:
            found.add(self.outcome)
        if self.match or any(map(is_template, times)):
            found.add(FAILURE)
        return frozenset(found)

    def condition(self) -> Any:
        """The condition on the event."""
        return self.condition_

    def flaws(self) -> Iterator[Flaw]:
        """Nothing to wait for, or matching without an event."""
        if self.event is not None:
            return
        outcome = self.outcome if "outcome" in self.model_fields_set else None
        given = {"match": self.match, "condition": self.condition_, "outcome": outcome}
        for field, value in given.items():
            if value is not None:
                yield Flaw(
                    (field,),
                    "field_not_allowed",
                    f"{field!r} needs an 'event' to wait for",
                    "name the event, or leave the field out",
                )
        if self.timeout is None and self.until is None:
            yield Flaw(
                (),
                "nothing_to_wait_for",
                "the wait has neither an event nor a time",
                "give 'event', 'timeout' or 'until'",
            )
