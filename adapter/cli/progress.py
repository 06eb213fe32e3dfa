"""Long work with a progress bar on stderr, which is shown only where somebody can see it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from adapter.cli.output import stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")

BATCH = 1_000


def in_batches(
    what: str, items: Sequence[T], work: Callable[[Sequence[T]], Sequence[R]]
) -> list[R]:
    """Hands the items to ``work`` in batches, in order, and returns what it returned for each."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = stderr()
    done: list[R] = []
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=len(items))
        for first in range(0, len(items), BATCH):
            done += work(items[first : first + BATCH])
            bar.update(task, completed=len(done))
    return done


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that tells by itself how many of how many are done."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = stderr()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
