"""Tables that fit the terminal: its width says which columns are shown and how times are told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.table import Table

from adapter.cli.output import cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

T = TypeVar("T")

MIDDLE = 100
FULL = 140
"""Terminals from these widths on show more."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column.

    Attributes:
        name: Its heading.
        value: What stands in it for a row.
        whole: Never wrapped or cut, so that it can be copied.
        least: Characters that it keeps, however narrow the terminal; long values are folded.
        shown_from: The narrowest terminal that has it.
    """

    name: str
    value: Callable[[T], Any]
    whole: bool = False
    least: int | None = None
    shown_from: int = 0


def listing(columns: Sequence[Column[T]], rows: Iterable[T], width: int) -> Table:
    """Returns the table of the rows.

    Args:
        columns: All there are.
        rows: What each line is about.
        width: Of the terminal.
    """
    shown = [column for column in columns if width >= column.shown_from]
    made = Table(header_style="bold", box=None, pad_edge=False)
    for column in shown:
        made.add_column(column.name, no_wrap=column.whole, overflow="fold", min_width=column.least)
    for row in rows:
        made.add_row(*(cell(column.value(row)) for column in shown))
    return made


def stamp(value: datetime | None, width: int) -> str:
    """A time in UTC, as exactly as the terminal has room for: at least month to minute."""
    if value is None:
        return ""
    form = "%m-%d %H:%M"
    if width >= FULL:
        form = "%Y-%m-%d %H:%M:%S.%f"
    elif width >= MIDDLE:
        form = "%Y-%m-%d %H:%M:%S"
    text = value.astimezone(UTC).strftime(form)
    return text[:-3] + "Z" if width >= FULL else text
