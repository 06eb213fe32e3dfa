"""Every test is driven in the other ways too: none takes production's parts past them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PARTS = {
    "turns": r"^from adapter\.execution\.turn import",
    "queued steps": r"^from adapter\.execution\.queued import .*run_step",
    "activities": r"^from temporal_workflows\.activities import",
    "drivers": r"^from temporal_workflows\.driver import .*InstanceDriver",
    "commands": r'"-m", "adapter\.cli"|with_name\("almanac"\)',
}
ALLOWED = {
    "tests/driving": "the other ways are made of them",
    "tests/exits.py": "ends processes as people start them",
    "tests/packaging": "runs what was built",
    "tests/upgrades": "goes on with what production's parts have recorded",
    "tests/architecture": "reads what others say",
}
WITH_TURNS = r"\b(take_turns?|run_step|running_worker|Workers|Bed|System)\b"


def _tests(root: Path) -> dict[str, str]:
    return {
        file.relative_to(root).as_posix(): file.read_text()
        for file in sorted((root / "tests").rglob("*.py"))
    }


def test_what_takes_turns_can_be_driven_in_other_ways(pytestconfig: pytest.Config) -> None:
    past = [
        f"{name}: {part}"
        for name, text in _tests(pytestconfig.rootpath).items()
        if not name.startswith(tuple(ALLOWED))
        for part, pattern in PARTS.items()
        if re.search(pattern, text, re.MULTILINE)
    ]
    assert past == []


def test_all_tests_that_take_turns_are_soaked(pytestconfig: pytest.Config) -> None:
    makefile = (pytestconfig.rootpath / "Makefile").read_text()
    driven = re.search(r"^DRIVEN := .+ \$\(addprefix tests/,(.+)\)$", makefile, re.MULTILINE)
    assert driven is not None
    soaked = tuple(f"tests/{part}/" for part in driven[1].split())

    left_out = [
        name
        for name, text in _tests(pytestconfig.rootpath).items()
        if "/test_" in name
        and re.search(WITH_TURNS, text)
        and not name.startswith((*soaked, *ALLOWED))
    ]
    assert left_out == []
