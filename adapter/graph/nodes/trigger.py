"""``trigger``: how an instance begins; exactly one in a graph."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from adapter.graph.configs import Flaw, NodeConfig
from adapter.graph.document import ConditionJson, EventKey  # noqa: TC001 - pydantic resolves them

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TYPE: Final = "trigger"

KINDS: Final = ("manual", "event")
LATER: Final = ("schedule", "webhook", "workflow")
"""Kinds of triggers that are documented but cannot run yet."""


def _kind(value: str) -> str:
    if value in KINDS:
        return value
    if value in LATER:
        raise PydanticCustomError(
            "not_supported", "{kind} triggers cannot run yet", {"kind": value}
        )
    raise PydanticCustomError("invalid_field", "must be 'manual' or 'event'")


class Config(NodeConfig):
    """Started by hand (``manual``), or by each event of a key whose payload meets the condition.

    The condition reads the payload as ``trigger`` or ``event``; no other name has a value yet.
    """

    CONDITIONS: ClassVar[Mapping[str, bool]] = MappingProxyType({"condition": True})

    type: Annotated[str, AfterValidator(_kind), WithJsonSchema({"enum": list(KINDS)})]
    event: EventKey | None = None
    condition_: ConditionJson | None = Field(None, alias="condition")

    def flaws(self) -> Iterator[Flaw]:
        """An event trigger needs its key; a manual one has neither key nor condition."""
        if self.type == "event" and self.event is None:
            yield Flaw(
                (), "missing_field", "an event trigger has no 'event'", "name the event's key"
            )
        if self.type == "manual":
            for field, value in (("event", self.event), ("condition", self.condition_)):
                if value is not None:
                    yield Flaw(
                        (field,),
                        "field_not_allowed",
                        f"a manual trigger has no {field!r}",
                        'leave it out, or set "type" to "event"',
                    )
