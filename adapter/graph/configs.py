"""What every node type tells about its config: outcomes, templates, condition, bodies, flaws."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from adapter.graph.document import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BODY: Final = "body"
"""The name of the only body of a for_each or repeat."""

SUCCESS: Final = "success"
FAILURE: Final = "failure"


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something a config gets wrong across its fields; ``path`` is inside the config."""

    path: tuple[str | int, ...]
    code: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Body:
    """A part of the graph that a node owns: what edges reach from its entry.

    Attributes:
        name: Unique within the owner: the branch's name, or ``body``.
        entry: The node that it begins with.
        path: Where the entry is named, inside the config.
    """

    name: str
    entry: str
    path: tuple[str | int, ...]


class NodeConfig(Part):
    """Base of the config models.

    Attributes:
        TEMPLATES: The fields (by their names in documents) that are rendered when the node begins.
        CONDITIONS: The fields (likewise) that hold conditions, and whether they read ``event``.
        MAY_RETRY: The node may have ``retry``.
        MAY_TIME_OUT: The node may have ``timeout``.
        CHANGES: Passing the node can change what later conditions read, or takes time. A loop of
            nodes that do neither can never end.
        MAY_LEAVE: Edges may leave the node.
        OWNS: The node owns other nodes.
        BINDS_ITEM: The nodes that it owns may read ``item``.
    """

    TEMPLATES: ClassVar[tuple[str, ...]] = ()
    CONDITIONS: ClassVar[Mapping[str, bool]] = MappingProxyType({})
    MAY_RETRY: ClassVar[bool] = False
    MAY_TIME_OUT: ClassVar[bool] = False
    CHANGES: ClassVar[bool] = True
    MAY_LEAVE: ClassVar[bool] = True
    OWNS: ClassVar[bool] = False
    BINDS_ITEM: ClassVar[bool] = False

    def outcomes(self) -> frozenset[str] | None:
        """The outcomes that it can have; None when any is possible."""
        return frozenset({SUCCESS})

    def waits(self) -> bool:
        """Whether it lets time pass, or what happens outside, before it goes on."""
        return False

    def bodies(self) -> tuple[Body, ...]:
        """The parts of the graph that the node owns, in the order of the document."""
        return ()

    def per_item(self) -> frozenset[str]:
        """Which of TEMPLATES are rendered once for each item, with the name ``item``."""
        return frozenset()

    def template(self) -> dict[str, Any]:
        """The part of the config that is rendered when the node begins, by field."""
        return self._given([name for name in self.TEMPLATES if name not in self.per_item()])

    def item_template(self) -> dict[str, Any] | None:
        """The part that is rendered for each item, by field; None when there are no items."""
        fields = self.per_item()
        return self._given([name for name in self.TEMPLATES if name in fields]) if fields else None

    def condition(self) -> Any:
        """The condition in the config, as JSON; None if it has none."""
        return next(iter(self._given(self.CONDITIONS).values()), None)

    def reads_event(self) -> bool:
        """Whether its condition may read ``event``."""
        return any(self.CONDITIONS.values())

    def flaws(self) -> Iterator[Flaw]:
        """Yields what is wrong between the fields, each of which is right by itself."""
        yield from ()

    def _given(self, names: Iterable[str]) -> dict[str, Any]:
        by_name = {field.alias or name: name for name, field in type(self).model_fields.items()}
        values = {name: getattr(self, by_name[name]) for name in names}
        return {name: value for name, value in values.items() if value is not None}
