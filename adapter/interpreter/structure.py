"""Lines and the scopes that own them, as values: where control stands inside structure nodes.

A *line* is one thread of control: the main line, or a branch, item or iteration. A *scope* is one
visit to a structure node: it owns lines, and joins them. Lines are named after the visit, not
after the attempt that stands for it, so that a retry finds them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Key = int | str

EMPTY: Mapping[Any, Any] = MappingProxyType({})

MAIN_LINE = ""
"""The line of control that begins at the trigger; a structure node names others."""

ScopeKind = Literal["parallel", "for_each", "repeat"]


@dataclass(frozen=True, slots=True)
class Result:
    """The latest finished step run of a node: where its output lies and how it ended."""

    step: Key
    outcome: str


@dataclass(frozen=True, slots=True)
class Position:
    """Where a line stood when it failed: the attempt that a retry follows.

    Attributes:
        source: The step run that holds the resolved config, if it was resolved.
    """

    step: Key
    node: str
    type: str
    visit: int
    attempt: int
    line: str
    source: Key | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A line that has ended.

    Attributes:
        outcome: ``success`` or ``failure``.
        step: The step run whose output is the line's; None where there is none.
        size: Bytes of that output.
        code: Why it failed.
        message: The same for people, cut to a line.
        position: Where it failed; None if nothing there can be tried again.
        results: What its nodes had come to when it failed; a retry reads them.
    """

    outcome: str
    step: Key | None = None
    size: int = 0
    code: str | None = None
    message: str | None = None
    position: Position | None = None
    results: Mapping[str, Result] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Scope:
    """One visit to a structure node whose lines are under way.

    Attributes:
        step: The step run that stands for it now.
        source: The step run that holds its resolved config (the items).
        line: The line that the node itself is on.
        total: Branches or items; None for ``repeat``, which does not know.
        begun: Lines begun so far; items and iterations begin in order.
        done: The lines that have ended, by name; of ``repeat`` only the last one.
        results: What the nodes of ended lines came to, where they are visible afterwards.
    """

    node: str
    visit: int
    step: Key
    source: Key
    line: str
    kind: ScopeKind
    total: int | None = None
    begun: int = 0
    done: Mapping[str, Done] = field(default_factory=lambda: EMPTY)
    results: Mapping[str, Result] = field(default_factory=lambda: EMPTY)

    @property
    def key(self) -> str:
        """Its name: the same for every attempt of the visit."""
        return f"{self.node}.{self.visit}"

    def count(self, outcome: str) -> int:
        """How many lines have ended with that outcome."""
        return sum(done.outcome == outcome for done in self.done.values())


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is under way, beside the main one."""

    results: Mapping[str, Result] = field(default_factory=lambda: EMPTY)


def line_of(scope: str, name: str) -> str:
    """The name of a scope's line: ``<node>.<visit>:<name>``."""
    return f"{scope}:{name}"


def owner_of(line: str) -> tuple[str, str]:
    """The scope that a line belongs to, and the line's name in it; the inverse of ``line_of``."""
    scope, _, name = line.partition(":")
    return scope, name


@dataclass(frozen=True, slots=True)
class Family:
    """The instances that a visit has started, when it failed: a retry starts no second ones.

    Attributes:
        steps: The step runs that have started them: the attempts so far.
        ulids: The instances, by item.
    """

    steps: tuple[Key, ...]
    ulids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that came and was not taken yet; its payload stays in its inbox row."""

    id: Key
    name: str
    correlation: str | None = None
