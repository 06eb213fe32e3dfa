"""``parallel``: runs branches beside one another and joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import Field

from adapter.graph.configs import FAILURE, SUCCESS, Body, Flaw, NodeConfig
from adapter.graph.document import NODE_ID_PATTERN, NodeId
from adapter.graph.joins import OnFailure, Quorum, check_quorum

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE: Final = "parallel"

BranchName = Annotated[str, Field(pattern=NODE_ID_PATTERN)]


class Config(NodeConfig):
    """The branches by name, each with the node that it begins with, and how they are joined."""

    OWNS: ClassVar[bool] = True

    branches: dict[BranchName, NodeId] = Field(min_length=1, max_length=64)
    join: Literal["all", "any", "quorum"] = "all"
    quorum: Quorum | None = None
    on_failure: OnFailure = "stop"

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` when fewer branches succeed than the join asks for."""
        return frozenset({SUCCESS, FAILURE})

    def bodies(self) -> tuple[Body, ...]:
        """One for each branch."""
        return tuple(Body(name, entry, ("branches", name)) for name, entry in self.branches.items())

    def flaws(self) -> Iterator[Flaw]:
        """A quorum that does not fit."""
        yield from check_quorum("join", self.join, self.quorum, len(self.branches), of="branches")
