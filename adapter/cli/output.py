"""What commands print: data on stdout, as tables or JSON; progress, hints, errors on stderr."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 160
"""Columns of a table that goes into a file or a pipe, unless $COLUMNS says how many."""

_STYLES = {
    "completed": "green",
    "succeeded": "green",
    "fired": "green",
    "failed": "red",
    "lost": "red",
    "cancelled": "yellow",
    "done": "green",
    "refused": "red",
    "open": "yellow",
    "paused": "yellow",
    "retrying": "yellow",
    "timed_out": "yellow",
}


def stdout() -> Console:
    """The console for data."""
    return _console(sys.stdout)


def stderr() -> Console:
    """The console for progress, hints and errors."""
    return _console(sys.stderr)


def print_json(value: Any, *, error: bool = False) -> None:
    """Prints one JSON value on a line of its own: indented for a terminal, else compact."""
    stream = sys.stderr if error else sys.stdout
    indent = orjson.OPT_INDENT_2 if stream.isatty() else 0
    made = orjson.dumps(value, default=str, option=indent | orjson.OPT_UTC_Z)
    stream.write(made.decode() + "\n")
    stream.flush()


def table(*columns: str, title: str | None = None) -> Table:
    """An empty table; columns that end in ``*`` are never wrapped or cut."""
    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        whole = column.endswith("*")
        made.add_column(column.rstrip("*"), no_wrap=whole, overflow="fold")
    return made


def cell(value: Any) -> Text:
    """A value as the text of a cell, whatever characters it holds."""
    if value is None:
        return Text("")
    if isinstance(value, datetime):
        return Text(moment(value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Text(plain(text), style=_STYLES.get(text, ""))


def moment(value: datetime | None) -> str:
    """A time in UTC to the millisecond."""
    if value is None:
        return ""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def plain(text: str) -> str:
    """The text without characters that a terminal would act on."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def shorten(value: Any, most: int = 60) -> str:
    """JSON on one line, cut in the middle of nowhere when it is long."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else text[: most - 1] + "…"


def coded(code: str, message: str | None) -> str:
    """A code with its message, or alone where there is none."""
    return f"{code}: {message}" if message else code


def _console(stream: Any) -> Console:
    told = os.environ.get("COLUMNS", "")
    width = None if stream.isatty() else int(told) if told.isdecimal() else WIDE
    return Console(file=stream, highlight=False, width=width, soft_wrap=False)
