"""``for_each``: runs the same body for every item of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from adapter.graph.configs import BODY, FAILURE, SUCCESS, Body, Flaw, NodeConfig
from adapter.graph.document import NodeId  # noqa: TC001 - pydantic resolves it
from adapter.graph.joins import OnFailure, Quorum, check_list, check_quorum, known_length

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE: Final = "for_each"


class Config(NodeConfig):
    """The items, the body that runs for each of them, and how many at a time."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("items",)
    OWNS: ClassVar[bool] = True
    BINDS_ITEM: ClassVar[bool] = True

    items: str | list[Any] = Field(description="a template that gives a list")
    body: NodeId = Field(description="the node that the body begins with")
    concurrency: int = Field(10, ge=1, le=1000, description="items under way at a time")
    mode: Literal["all", "first_success", "quorum"] = "all"
    quorum: Quorum | None = None
    on_failure: OnFailure = "stop"

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` when the items cannot be told, or fewer succeed than the mode asks for."""
        return frozenset({SUCCESS, FAILURE})

    def bodies(self) -> tuple[Body, ...]:
        """The only one."""
        return (Body(BODY, self.body, (BODY,)),)

    def flaws(self) -> Iterator[Flaw]:
        """Items that are no list, or a quorum that does not fit."""
        yield from check_list("items", self.items)
        yield from check_quorum(
            "mode", self.mode, self.quorum, known_length(self.items), of="items"
        )
