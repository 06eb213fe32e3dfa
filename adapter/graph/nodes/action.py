"""``action``: calls a handler that the host registered."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import Field

from adapter.graph.configs import NodeConfig
from adapter.graph.document import KEY_PATTERN

TYPE: Final = "action"


class Config(NodeConfig):
    """The action's name, and the keyword arguments of its handler."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("input",)
    MAY_RETRY: ClassVar[bool] = True
    MAY_TIME_OUT: ClassVar[bool] = True

    action: str = Field(pattern=KEY_PATTERN, max_length=191)
    input: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of the handler; texts may be templates"
    )

    def outcomes(self) -> frozenset[str] | None:
        """Any: a handler may name its own outcome."""
        return None
