"""``set``: puts values into the workflow's variables."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from adapter.graph.configs import FAILURE, SUCCESS, NodeConfig

TYPE: Final = "set"

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


class Config(NodeConfig):
    """Values merged into ``state``; all of them are evaluated against the state before."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("values",)

    values: dict[VariableName, Any] = Field(min_length=1)

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` when an expression fails or the state grows too large."""
        return frozenset({SUCCESS, FAILURE})
