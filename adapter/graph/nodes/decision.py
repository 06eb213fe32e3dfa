"""``decision``: chooses an edge, by an outcome it computes or by the edges' conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from adapter.errors import ExpressionError
from adapter.graph.configs import FAILURE, SUCCESS, Flaw, NodeConfig
from adapter.graph.templates import result_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE: Final = "decision"


class Config(NodeConfig):
    """An optional template that gives the outcome; without it the outcome is ``success``."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("on",)
    CHANGES: ClassVar[bool] = False

    on: str | None = Field(
        None,
        min_length=1,
        description="a template whose text is the outcome: at most 32 characters, or true or false",
    )

    def outcomes(self) -> frozenset[str] | None:
        """What the template can give, and ``failure`` when it fails."""
        if self.on is None:
            return frozenset({SUCCESS})
        return frozenset({"true", "false", FAILURE}) if self._kind() == "BOOL" else None

    def flaws(self) -> Iterator[Flaw]:
        """An expression whose result can never be an outcome."""
        kind = self._kind() or "STRING"
        if kind not in ("BOOL", "DYN", "DOUBLE", "INT", "STRING", "UINT"):
            yield Flaw(
                ("on",),
                "outcome_not_text",
                f"the outcome is a text, but the expression gives {kind}",
                "let the expression give a text, a number, true or false",
            )

    def _kind(self) -> str | None:
        try:
            return None if self.on is None else result_kind(self.on)
        except ExpressionError:
            return None
