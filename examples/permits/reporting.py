"""Reports: plain SQL on the tables, one file each, shown as tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from adapter.settings import TableNames

if TYPE_CHECKING:
    import psycopg

FOLDER = Path(__file__).parent / "reports"


@dataclass(frozen=True, slots=True)
class Report:
    """One query and what it is called, which is its first line."""

    title: str
    query: str


def read_reports(tables: TableNames | None = None) -> list[Report]:
    """The reports in the order of their files.

    Args:
        tables: What the tables are called; the files have the default names.
    """
    found = []
    for file in sorted(FOLDER.glob("*.sql")):
        text = file.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("--").strip()
        found.append(Report(title, _renamed(text, tables or TableNames())))
    return found


def show(connection: psycopg.Connection[Any], report: Report) -> Table:
    """Runs a report; numbers stand to the right."""
    cursor = connection.execute(report.query.encode())
    rows = cursor.fetchall()
    table = Table(title=report.title, title_justify="left", title_style="bold")
    for index, column in enumerate(cursor.description or []):
        numbers = not any(isinstance(row[index], str) for row in rows)
        table.add_column(column.name.replace("_", " "), justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    return table


def _renamed(query: str, tables: TableNames) -> str:
    names = {
        default: name
        for default, name in zip(
            TableNames().model_dump().values(), tables.model_dump().values(), strict=True
        )
        if default != name
    }
    if not names:
        return query
    pattern = rf"\b({'|'.join(map(re.escape, names))})\b"
    return re.sub(pattern, lambda found: names[found[0]], query)
