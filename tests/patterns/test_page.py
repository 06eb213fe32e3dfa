from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from tests.docs.pages import ROOT, read_page

PAGE = read_page("docs/patterns.md")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.text.splitlines()
    if re.match(r"\| \d+ \|", line)
]
LINKED = re.compile(r"\[(test_wcp_(\d\d)_\w+)\]\(\.\./(tests/patterns/\w+\.py)\)")
TESTED = {
    found.name
    for path in sorted((ROOT / "tests" / "patterns").glob("test_*.py"))
    for found in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(found, ast.AsyncFunctionDef) and found.name.startswith("test_wcp_")
}


def test_the_page_has_all_patterns_in_order() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 44))
    assert len({row[1] for row in ROWS}) == 43
    assert all(len(row) == 6 and all(row[:5]) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_supported_pattern_has_a_test_where_the_page_says_and_a_refused_one_has_none(
    row: list[str],
) -> None:
    if row[3] == "refused":
        assert row[5] == ""
        return
    linked = LINKED.fullmatch(row[5])
    assert linked is not None
    name, number, path = linked.groups()
    assert int(number) == int(row[0])
    assert f"async def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_every_test_of_a_pattern_has_a_row() -> None:
    linked = [found[1] for row in ROWS if (found := LINKED.fullmatch(row[5]))]
    assert sorted(linked) == sorted(TESTED)


def test_the_page_counts_what_is_supported() -> None:
    told = re.findall(r"^\| (\w+) \| [^|]+ \| (\d+) \|$", PAGE.text, re.MULTILINE)
    counts = Counter(row[3] for row in ROWS)
    assert {kind: int(count) for kind, count in told} == counts
    assert len(ROWS) - counts["refused"] >= 38
