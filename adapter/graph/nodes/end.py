"""``end``: ends the instance with a status of the author's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from adapter.graph.configs import Flaw, NodeConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE: Final = "end"


class Config(NodeConfig):
    """Status, failure code, message and output of the instance."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("message", "output")
    MAY_LEAVE: ClassVar[bool] = False

    status: Literal["completed", "failed", "cancelled"] = "completed"
    code: str | None = Field(
        None, pattern=r"^[a-z][a-z0-9_]{0,63}$", description="the failure code"
    )
    message: str | None = Field(None, max_length=10_000)
    output: Any = None

    def outcomes(self) -> frozenset[str] | None:
        """None that an edge could carry on from."""
        return frozenset()

    def flaws(self) -> Iterator[Flaw]:
        """A code without a failure."""
        if self.code is not None and self.status != "failed":
            yield Flaw(
                ("code",),
                "field_not_allowed",
                f"'code' is the failure code, but the status is {self.status!r}",
                'leave it out, or set "status" to "failed"',
            )
