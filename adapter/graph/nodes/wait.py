"""``wait``: waits for an event, for signals, for a time, or for whichever comes first."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from adapter.graph.configs import FAILURE, SUCCESS, Flaw, NodeConfig
from adapter.graph.document import (  # noqa: TC001 - pydantic resolves them
    ConditionJson,
    EventKey,
    Outcome,
    SignalName,
)
from adapter.graph.timing import (
    DurationTemplate,
    TimeTemplate,
    is_template,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TYPE: Final = "wait"

MatchField = Annotated[str, Field(min_length=1, max_length=191)]

_SOURCES: Final = ("event", "signal", "signals")


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise PydanticCustomError("invalid_field", "the names must differ from one another")
    return names


class Config(NodeConfig):
    """An event, a signal or several signals that fit, or a time.

    The payload must hold every field of ``match`` with an equal value, and then meet the condition,
    which reads it as ``event``; a signal must also carry the ``correlation``. The outcome is
    ``success``, or ``outcome`` when the time comes first. Without anything else it waits for the
    time alone, and the outcome is ``success``. With both ``timeout`` and ``until`` the earlier one
    counts.
    """

    TEMPLATES: ClassVar[tuple[str, ...]] = ("match", "correlation", "timeout", "until")
    CONDITIONS: ClassVar[Mapping[str, bool]] = MappingProxyType({"condition": True})

    event: EventKey | None = None
    signal: SignalName | None = None
    signals: (
        Annotated[list[SignalName], AfterValidator(_distinct), Field(min_length=1, max_length=64)]
        | None
    ) = None
    mode: Literal["all", "any"] = Field("all", description="of 'signals'")
    match: dict[MatchField, Any] | None = Field(None, max_length=16)
    correlation: str | None = Field(
        None, min_length=1, description="a template: the text that a signal must carry"
    )
    condition_: ConditionJson | None = Field(None, alias="condition")
    timeout: DurationTemplate | None = None
    until: TimeTemplate | None = None
    outcome: Outcome = "timed_out"

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` only where a template may fail."""
        found = {SUCCESS}
        times = [time for time in (self.timeout, self.until) if time is not None]
        if self._sources() and times:
            found.add(self.outcome)
        if self.match or any(map(is_template, [*times, self.correlation or ""])):
            found.add(FAILURE)
        return frozenset(found)

    def waits(self) -> bool:
        """Always."""
        return True

    def flaws(self) -> Iterator[Flaw]:
        """Nothing to wait for, too much, or matching without anything to match."""
        sources = self._sources()
        if len(sources) > 1:
            yield Flaw(
                (sources[1],),
                "several_to_wait_for",
                f"the wait has {' and '.join(map(repr, sources))}",
                "keep one; use a parallel with 'join': 'any' to wait for different things",
            )
        given = self.model_fields_set
        outcome = self.outcome if "outcome" in given else None
        fields = {"match": self.match, "condition": self.condition_, "outcome": outcome}
        if not sources:
            yield from _needing(fields, "an 'event' or 'signal' to wait for")
        if "signal" not in sources and "signals" not in sources:
            yield from _needing({"correlation": self.correlation}, "a 'signal' to wait for")
        if "signals" not in sources and "mode" in given:
            yield from _needing({"mode": self.mode}, "'signals' to wait for")
        if not sources and self.timeout is None and self.until is None:
            yield Flaw(
                (),
                "nothing_to_wait_for",
                "the wait has neither an event, nor a signal, nor a time",
                "give 'event', 'signal', 'signals', 'timeout' or 'until'",
            )

    def _sources(self) -> list[str]:
        return [field for field in _SOURCES if getattr(self, field) is not None]


def _needing(fields: Mapping[str, Any], what: str) -> Iterator[Flaw]:
    for field, value in fields.items():
        if value is not None:
            yield Flaw(
                (field,),
                "field_not_allowed",
                f"{field!r} needs {what}",
                "name what to wait for, or leave the field out",
            )
