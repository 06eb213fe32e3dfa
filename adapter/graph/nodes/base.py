"""What every node type tells about its config: outcomes, templates, condition, cross-field checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from adapter.graph.document import Part

SUCCESS: Final = "success"
FAILURE: Final = "failure"


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something a config gets wrong across its fields; ``path`` is inside the config."""

    path: tuple[str | int, ...]
    code: str
    message: str
    remedy: str


class NodeConfig(Part):
    """Base of the config models.

    Attributes:
        MAY_RETRY: The node may have ``retry``.
        MAY_TIME_OUT: The node may have ``timeout``.
        ACTS: Running the node can change what conditions read, other than by waiting.
        WAITS: The node lets time pass or waits for something outside.
        MAY_LEAVE: Edges may leave the node.
    """

    MAY_RETRY: ClassVar[bool] = False
    MAY_TIME_OUT: ClassVar[bool] = False
    ACTS: ClassVar[bool] = False
    WAITS: ClassVar[bool] = False
    MAY_LEAVE: ClassVar[bool] = True

    def outcomes(self) -> frozenset[str] | None:
        """The outcomes that it can have; None when any is possible."""
        return frozenset({SUCCESS})

    def template(self) -> dict[str, Any]:
        """The part of the config that is rendered when the node begins, by field."""
        return {}

    def condition(self) -> Any:
        """The condition in the config, as JSON; None if it has none."""
        return None

    @property
    def condition_sees_event(self) -> bool:
        """Whether that condition may use the name ``event``."""
        return False

    def flaws(self) -> Iterator[Flaw]:
        """Yields what is wrong between the fields, each of which is right by itself."""
        yield from ()

    def given(self, *fields: str) -> dict[str, Any]:
        """The values of those fields that are not None, by field: what ``template`` mostly is."""
        return {field: value for field in fields if (value := getattr(self, field)) is not None}
