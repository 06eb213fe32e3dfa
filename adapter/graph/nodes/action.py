"""``action``: calls a handler that the host registered."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from adapter.graph.configs import NodeConfig
from adapter.graph.document import KEY_PATTERN, DurationText
from adapter.graph.durations import parse_duration

TYPE: Final = "action"


def _heartbeat(text: str) -> str:
    if parse_duration(text) < timedelta(seconds=1):
        raise PydanticCustomError("invalid_duration", "it must be at least PT1S")
    return text


Heartbeat = Annotated[DurationText, AfterValidator(_heartbeat)]


class Config(NodeConfig):
    """The action's name, the keyword arguments of its handler, and where it runs."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("input",)
    MAY_RETRY: ClassVar[bool] = True
    MAY_TIME_OUT: ClassVar[bool] = True

    action: str = Field(pattern=KEY_PATTERN, max_length=191)
    input: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of the handler; texts may be templates"
    )

    queue: str | None = Field(
        None,
        pattern=r"^[a-z][a-z0-9._-]{0,63}$",
        description="the task queue whose workers run the handler",
    )
    heartbeat: Heartbeat | None = Field(
        None, description="a worker that gives no sign of life for so long has lost the step"
    )

    def outcomes(self) -> frozenset[str] | None:
        """Any: a handler may name its own outcome."""
        return None
