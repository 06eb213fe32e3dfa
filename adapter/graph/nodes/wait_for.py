"""``wait_for``: waits until other instances have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from adapter.graph.configs import FAILURE, SUCCESS, Flaw, NodeConfig
from adapter.graph.document import Outcome  # noqa: TC001 - pydantic resolves it
from adapter.graph.joins import Quorum, check_list, check_quorum, known_length
from adapter.graph.timing import DurationTemplate, TimeTemplate  # noqa: TC001 - likewise

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE: Final = "wait_for"


class Config(NodeConfig):
    """Which instances, and how many of them must complete."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("instances", "timeout", "until")

    instances: Annotated[str, Field(min_length=1)] | Annotated[list[Any], Field(min_length=1)] = (
        Field(description="a template that gives the public id of an instance, or a list of them")
    )
    mode: Literal["all", "any", "quorum"] = "all"
    quorum: Quorum | None = None
    timeout: DurationTemplate | None = None
    until: TimeTemplate | None = None
    outcome: Outcome = "timed_out"

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` when what it waits for cannot come any more."""
        timed = not (self.timeout is None and self.until is None)
        return frozenset({SUCCESS, FAILURE, self.outcome} if timed else {SUCCESS, FAILURE})

    def waits(self) -> bool:
        """Always."""
        return True

    def flaws(self) -> Iterator[Flaw]:
        """Something that is no id, or a quorum that does not fit."""
        yield from check_list("instances", self.instances, or_text=True)
        yield from check_quorum(
            "mode", self.mode, self.quorum, known_length(self.instances), of="instances"
        )
        if "outcome" in self.model_fields_set and self.timeout is None and self.until is None:
            yield Flaw(
                ("outcome",),
                "field_not_allowed",
                "'outcome' is the outcome of a time-out, but there is no time",
                "give 'timeout' or 'until', or leave it out",
            )
