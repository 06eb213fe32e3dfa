from __future__ import annotations

import re

import pytest

from adapter.services.diagnosing import checks
from adapter.services.diagnosing.check import DATABASE, SCHEMA, TEMPORAL
from adapter.services.diagnosing.registry import all_checks


@pytest.fixture(scope="module")
def page(pytestconfig: pytest.Config) -> dict[str, list[str]]:
    text = (pytestconfig.rootpath / "docs" / "doctor.md").read_text()
    found = re.findall(r"^\| `([a-z_]+)` \|(.+)\|$", text, re.MULTILINE)
    return {code: [cell.strip() for cell in cells.split("|")] for code, cells in found}


def test_every_module_is_a_check_of_its_name(pytestconfig: pytest.Config) -> None:
    (directory,) = checks.__path__
    modules = {
        file.stem
        for file in (pytestconfig.rootpath / directory).glob("*.py")
        if file.stem != "__init__"
    }
    assert sorted(one.code for one in all_checks()) == sorted(modules)


def test_the_page_lists_every_check_with_its_severity_and_fix(page: dict[str, list[str]]) -> None:
    told = {
        code: (cells[0].split(",")[0], bool(cells[3]), "an error from" in cells[0])
        for code, cells in page.items()
    }
    assert told == {
        one.code: (one.severity, one.mend is not None, one.grows is not None)
        for one in all_checks()
    }


def test_what_others_need_is_looked_at_before_them() -> None:
    had: set[str] = set()
    for one in all_checks():
        assert one.needs <= had, one.code
        had |= {one.provides} if one.provides else set()
    assert had == {DATABASE, SCHEMA, TEMPORAL}


def test_every_check_says_what_it_means_and_what_repairs_it() -> None:
    for one in all_checks():
        assert one.meaning.endswith("."), one.code
        assert one.command, one.code
