"""When a scope is decided: how many of its lines have to succeed, and what a failure does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .entries import FAILURE, SUCCESS

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode


@dataclass(frozen=True, slots=True)
class Join:
    """The rule of one node.

    Attributes:
        needed: How many must succeed; None for all of them.
        stop: Whether it fails as soon as that is out of reach, or when all have ended.
    """

    needed: int | None
    stop: bool

    @classmethod
    def of(cls, node: CompiledNode) -> Join:
        """The rule in a node's config: ``join`` or ``mode``, ``quorum``, ``on_failure``."""
        config: Any = node.config
        mode = str(getattr(config, "join", None) or getattr(config, "mode", "all"))
        needed = {"all": None, "quorum": config.quorum}.get(mode, 1)
        return cls(needed, getattr(config, "on_failure", "stop") == "stop")

    def verdict(self, total: int, succeeded: int, failed: int) -> str | None:
        """``success``, ``failure``, or None while it is open.

        Args:
            total: How many there are.
            succeeded: How many have succeeded.
            failed: How many have failed.
        """
        needed = total if self.needed is None else self.needed
        if succeeded >= needed:
            return SUCCESS
        if total - failed >= needed:
            return None
        return FAILURE if self.stop or succeeded + failed == total else None
