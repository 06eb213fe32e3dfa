from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, read_page

PAGE = read_page("docs/failure-matrix.md")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.text)))
HEADINGS = ["Workers", "Effects", "PostgreSQL", "Temporal", "Floods", "Clocks"]


def rows(heading: str) -> list[list[str]]:
    lines = [line for line in PAGE.section(heading).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_every_test_that_the_page_names_exists(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_failure_says_what_is_seen_what_happens_and_what_proves_it(heading: str) -> None:
    found = rows(heading)
    assert found
    for row in found:
        assert len(row) == 5
        assert all(row)
        assert "tests/" in row[4] or row[4] == "the same"


def test_every_test_of_what_is_survived_stands_on_the_page() -> None:
    named = {test for _, test in NAMED}
    for file in (ROOT / "tests/survival").glob("test_*.py"):
        for test in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE):
            assert test in named, test
