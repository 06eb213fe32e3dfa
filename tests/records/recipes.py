"""The SQL recipes of docs/records.md, ready to run."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
VARIABLES = dict(re.findall(r"^    \\set (\w+) (\S+)$", PAGE, re.MULTILINE))
"""The variables that the page sets, with its example values."""


def recipes() -> dict[str, str]:
    """The statements by their heading; a further one below the same heading gets `` (2)``."""
    found: dict[str, str] = {}
    title = ""
    part = PAGE.split("\n## SQL recipes\n")[1]
    for heading, block in re.findall(r"^### ([^\n]+)$|^```sql\n(.*?)^```", part, re.M | re.S):
        title = heading or title
        if block:
            found[title if title not in found else f"{title} (2)"] = block
    return found


def statement(title: str, **values: object) -> str:
    """One recipe with its variables put in as ``psql`` does: those given, else the page's own."""
    given = {**VARIABLES, **{name: str(value) for name, value in values.items()}}

    def quoted(found: re.Match[str]) -> str:
        value = given[found[1]].replace("'", "''")
        return f"'{value}'"

    return re.sub(r":'(\w+)'", quoted, recipes()[title])
