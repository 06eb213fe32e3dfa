from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

VAGUE = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}
LONGEST = 400


def _sources(config: pytest.Config) -> Iterator[Path]:
    for package in ("adapter", "temporal_workflows", "migrations"):
        yield from (config.rootpath / package).rglob("*.py")


def test_no_module_has_a_name_that_says_nothing(pytestconfig: pytest.Config) -> None:
    assert [file for file in _sources(pytestconfig) if file.stem in VAGUE] == []


def test_no_module_is_too_long_to_have_one_purpose(pytestconfig: pytest.Config) -> None:
    lengths = {file: len(file.read_text().splitlines()) for file in _sources(pytestconfig)}

    assert {file: length for file, length in lengths.items() if length > LONGEST} == {}


def test_the_locks_name_no_place(pytestconfig: pytest.Config) -> None:
    for lock in (pytestconfig.rootpath / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert "://" not in text
        assert "--index-url" not in text
        assert "--find-links" not in text


def test_every_locked_requirement_has_its_hashes(pytestconfig: pytest.Config) -> None:
    for lock in (pytestconfig.rootpath / "requirements").glob("*.txt"):
        requirements = re.split(r"\n(?=[a-z])", lock.read_text())[1:]
        assert len(requirements) > 10
        assert [name for name in requirements if "--hash=sha256:" not in name] == []


def test_every_make_target_says_what_it_does(pytestconfig: pytest.Config) -> None:
    makefile = (pytestconfig.rootpath / "Makefile").read_text()
    declared = re.search(r"\.PHONY: (.+)", makefile)
    assert declared is not None

    explained = re.findall(r"^([a-z-]+):.*## \w", makefile, re.MULTILINE)

    assert sorted(explained) == sorted(declared[1].split())
