"""``repeat``: runs a body again and again, while or until a condition holds."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from adapter.graph.configs import BODY, FAILURE, SUCCESS, Body, Flaw, NodeConfig
from adapter.graph.document import (  # noqa: TC001 - pydantic resolves them
    ConditionJson,
    NodeId,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TYPE: Final = "repeat"

EXHAUSTED: Final = "exhausted"


class Config(NodeConfig):
    """The body, and exactly one of ``while`` and ``until``.

    ``while`` is tested before every iteration, ``until`` after every one, so that it runs at least
    once.
    """

    CONDITIONS: ClassVar[Mapping[str, bool]] = MappingProxyType({"while": False, "until": False})
    OWNS: ClassVar[bool] = True

    body: NodeId = Field(description="the node that the body begins with")
    while_: ConditionJson | None = Field(None, alias="while")
    until: ConditionJson | None = None
    max_iterations: int = Field(1000, ge=1, le=100_000)

    def outcomes(self) -> frozenset[str] | None:
        """``exhausted`` when the last iteration that is allowed was not the last one wanted."""
        return frozenset({SUCCESS, FAILURE, EXHAUSTED})

    def bodies(self) -> tuple[Body, ...]:
        """The only one."""
        return (Body(BODY, self.body, (BODY,)),)

    def flaws(self) -> Iterator[Flaw]:
        """Neither or both of the conditions."""
        if (self.while_ is None) is (self.until is None):
            yield Flaw(
                (),
                "repeat_condition",
                "a repeat has exactly one of 'while' and 'until'",
                'give "while": the condition to go on, or "until": the condition to stop',
            )
