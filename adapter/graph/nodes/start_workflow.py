"""``start_workflow``: starts an instance of another definition, or one for each item of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from adapter.graph.configs import FAILURE, SUCCESS, Flaw, NodeConfig
from adapter.graph.document import Key, Outcome  # noqa: TC001 - pydantic resolves them
from adapter.graph.joins import OnFailure, Quorum, check_list, check_quorum, known_length
from adapter.graph.timing import DurationTemplate, TimeTemplate  # noqa: TC001 - likewise

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE: Final = "start_workflow"

_ONLY_MANY: Final = ("mode", "quorum", "on_failure")
_ONLY_WAITING: Final = (*_ONLY_MANY, "timeout", "until", "outcome")


class Config(NodeConfig):
    """Which definition, with what input, and whether to wait for what becomes of it."""

    TEMPLATES: ClassVar[tuple[str, ...]] = ("input", "items", "timeout", "until")

    workflow: Key = Field(description="the key of the definition")
    input: dict[str, Any] | None = Field(
        None, description="the payload of the start, a template; reads 'item' when there are items"
    )
    items: str | list[Any] | None = Field(
        None, description="a template that gives a list: one instance for each item"
    )
    wait: bool = True
    mode: Literal["all", "any", "quorum"] = "all"
    quorum: Quorum | None = None
    on_failure: OnFailure = "stop"
    timeout: DurationTemplate | None = None
    until: TimeTemplate | None = None
    outcome: Outcome = "timed_out"

    def outcomes(self) -> frozenset[str] | None:
        """``failure`` when it cannot be started, or when too few of the instances complete."""
        timed = self.wait and not (self.timeout is None and self.until is None)
        return frozenset({SUCCESS, FAILURE, self.outcome} if timed else {SUCCESS, FAILURE})

    def waits(self) -> bool:
        """Unless it only starts them."""
        return self.wait

    def per_item(self) -> frozenset[str]:
        """The input, when there are items."""
        return frozenset() if self.items is None else frozenset({"input"})

    def flaws(self) -> Iterator[Flaw]:
        """Fields that mean something only for several instances, or only when it waits."""
        given = self.model_fields_set
        for field in _ONLY_MANY if self.wait else _ONLY_WAITING:
            if field not in given or getattr(self, field) is None:
                continue
            if not self.wait:
                message = f"{field!r} has no meaning when the node does not wait"
                yield Flaw((field,), "field_not_allowed", message, "leave out the field or 'wait'")
            elif self.items is None:
                message = f"{field!r} has no meaning for a single instance"
                yield Flaw((field,), "field_not_allowed", message, "leave it out, or give 'items'")
        if self.items is not None:
            yield from check_list("items", self.items)
            if self.wait:
                parts = known_length(self.items)
                yield from check_quorum("mode", self.mode, self.quorum, parts, of="items")
