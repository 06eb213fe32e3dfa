"""The steps of an instance as a tree: below a structure node its lines, below a step its children.

Of many lines or children only the first and the failed ones are drawn; the others are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from adapter.cli.output import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from adapter.services.views import ChildView, InstanceView, StepView

T = TypeVar("T")

MANY = 8
"""So many lines or children are drawn in full."""

FIRST = 3
FAILED = 10
"""Of more than ``MANY``: so many first ones and failed ones are drawn."""

_BAD = frozenset({"failed", "lost"})
_DEPTH = "  "


@dataclass(frozen=True, slots=True)
class Branch:
    """One row of the tree: a step, a child, or the count of what is left out.

    Attributes:
        label: The first column, indented.
        line: The line that it stands on.
    """

    label: str
    line: str
    step: StepView | None = None
    child: ChildView | None = None


def tree_of(view: InstanceView) -> list[Branch]:
    """Returns the rows of an instance's tree, in the order in which they are read."""
    return list(_Tree(view).rows())


class _Tree:
    def __init__(self, view: InstanceView) -> None:
        self._lines: dict[str, list[StepView]] = defaultdict(list)
        owners: dict[tuple[str, str], StepView] = {}
        for step in view.steps:
            self._lines[step.line].append(step)
            # The lines of a visit go on over its attempts: they stand below the last one.
            owners[step.node, str(step.visit)] = step
        self._bodies: dict[int | str, list[str]] = defaultdict(list)
        self._orphans: list[str] = []
        for line in self._lines:
            node, _, visit = line.partition(":")[0].rpartition(".")
            owner = owners.get((node, visit))
            if owner is not None and owner.line != line:
                self._bodies[owner.id].append(line)
            elif line:
                self._orphans.append(line)
        for lines in self._bodies.values():
            lines.sort(key=lambda line: self._place(line, view.branches))
        self._children: dict[int | str | None, list[ChildView]] = defaultdict(list)
        for child in view.children:
            self._children[child.step].append(child)
        self._shown = {step.id for step in view.steps}

    @staticmethod
    def _place(line: str, branches: Mapping[str, Sequence[str]]) -> int:
        """Where a line stands among those of its owner; what is not known goes last."""
        owner, _, name = line.partition(":")
        if name.isdecimal():
            return int(name)
        names = branches.get(owner.rpartition(".")[0], ())
        return names.index(name) if name in names else len(names)

    def rows(self) -> Iterator[Branch]:
        # Where the oldest steps were left out, lines and children may have lost their owners.
        for line in self._orphans:
            yield from self._line(line, "", f"{line}: ")
        yield from self._line("", "", "")
        lost = [c for step, some in self._children.items() if step not in self._shown for c in some]
        yield from self._some_children(lost, "", "")

    def _line(self, line: str, indent: str, name: str) -> Iterator[Branch]:
        for place, step in enumerate(self._lines[line]):
            head = name if place == 0 else " " * len(name)
            yield Branch(f"{indent}{head}{step.node}", line, step=step)
            below = indent + " " * len(name) + _DEPTH
            yield from self._some_children(self._children.get(step.id, ()), below, line)
            yield from self._body(self._bodies.get(step.id, ()), below, line)

    def _body(self, lines: Sequence[str], indent: str, owner: str) -> Iterator[Branch]:
        drawn, left = _picked(lines, self._status)
        for line in drawn:
            name = shorten(line.partition(":")[2], 40)
            yield from self._line(line, indent, f"{name}: ")
        if left:
            yield Branch(f"{indent}{_counted(map(self._status, left))}", owner)

    def _some_children(
        self, children: Sequence[ChildView], indent: str, line: str
    ) -> Iterator[Branch]:
        drawn, left = _picked(children, lambda child: child.status)
        for child in drawn:
            place = "" if child.index is None else f"{child.index}: "
            yield Branch(f"{indent}{place}{child.ulid}", line, child=child)
        if left:
            yield Branch(f"{indent}{_counted(child.status for child in left)}", line)

    def _status(self, line: str) -> str:
        return self._lines[line][-1].status


def _picked(items: Sequence[T], status: Callable[[T], str]) -> tuple[list[T], list[T]]:
    """What is drawn, in its order, and what is only counted."""
    if len(items) <= MANY:
        return list(items), []
    failed = [place for place, item in enumerate(items) if status(item) in _BAD]
    chosen = {*range(FIRST), *failed[:FAILED]}
    drawn = [item for place, item in enumerate(items) if place in chosen]
    return drawn, [item for place, item in enumerate(items) if place not in chosen]


def _counted(statuses: Iterable[str]) -> str:
    counts = Counter(statuses)
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return f"and {counts.total()} more: {told}"
