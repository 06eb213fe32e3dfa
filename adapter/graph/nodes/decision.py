"""``decision``: chooses an edge, by an outcome it computes or by the edges' conditions."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import Field

from adapter.graph.nodes.base import SUCCESS, NodeConfig

TYPE: Final = "decision"


class Config(NodeConfig):
    """An optional expression whose text is the outcome; without it the outcome is ``success``."""

    ACTS: ClassVar[bool] = False

    on: str | None = Field(
        None, min_length=1, description="a template that gives the outcome, at most 32 characters"
    )

    def outcomes(self) -> frozenset[str] | None:
        """Whatever the expression gives."""
        return None if self.on is not None else frozenset({SUCCESS})

    def template(self) -> dict[str, Any]:
        """The expression."""
        return self.given("on")
