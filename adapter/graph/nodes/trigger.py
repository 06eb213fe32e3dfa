"""``trigger``: how an instance begins; exactly one in a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from adapter.graph.nodes.base import Flaw, NodeConfig

TYPE: Final = "trigger"

SUPPORTED: Final = ("manual", "event")


class Config(NodeConfig):
    """Started by hand (``manual``), or by each event of a key whose payload meets the condition.

    The condition reads the payload as ``trigger``; the other names have no value yet.
    """

    ACTS: ClassVar[bool] = False

    type: Literal["manual", "event"]
    event: str | None = Field(None, min_length=1, max_length=191)
    condition_: dict[str, Any] | str | None = Field(None, alias="condition")

    def condition(self) -> Any:
        """The condition on the payload."""
        return self.condition_

    def flaws(self) -> Iterator[Flaw]:
        """An event trigger needs its key; a manual one has neither key nor condition."""
        if self.type == "event" and self.event is None:
            yield Flaw(
                ("event",),
                "missing_field",
                "an event trigger has no 'event'",
                "name the event's key",
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
