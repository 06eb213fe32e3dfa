"""What every node type tells about its config: outcomes, templates, condition, flaws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from adapter.graph.document import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        TEMPLATES: The fields (by their names in documents) that are rendered when the node begins.
        MAY_RETRY: The node may have ``retry``.
        MAY_TIME_OUT: The node may have ``timeout``.
        CHANGES: Passing the node can change what later conditions read, or takes time. A loop of
            nodes that do neither can never end.
        MAY_LEAVE: Edges may leave the node.
    """

    TEMPLATES: ClassVar[tuple[str, ...]] = ()
    MAY_RETRY: ClassVar[bool] = False
    MAY_TIME_OUT: ClassVar[bool] = False
    CHANGES: ClassVar[bool] = True
    MAY_LEAVE: ClassVar[bool] = True

    def outcomes(self) -> frozenset[str] | None:
        """The outcomes that it can have; None when any is possible."""
        return frozenset({SUCCESS})

    def template(self) -> dict[str, Any]:
        """The part of the config that is rendered when the node begins, by field."""
        by_name = {field.alias or name: name for name, field in type(self).model_fields.items()}
        values = {name: getattr(self, by_name[name]) for name in self.TEMPLATES}
        return {name: value for name, value in values.items() if value is not None}

    def condition(self) -> Any:
        """The condition in the config, as JSON; None if it has none."""
        return None

    def flaws(self) -> Iterator[Flaw]:
        """Yields what is wrong between the fields, each of which is right by itself."""
        yield from ()
