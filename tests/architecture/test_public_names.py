from __future__ import annotations

import subprocess
import sys

import pytest

import adapter
from adapter import errors

PUBLIC = ["Almanac", "Outcome", "StepError", "action"]


def test_the_package_exports_exactly_its_public_names() -> None:
    assert sorted(adapter.__all__) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_can_be_imported(name: str) -> None:
    assert getattr(adapter, name) is not None
    assert name in dir(adapter)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Workflow'"):
        getattr(adapter, "Workflow")  # noqa: B009 (the lazy look-up is what is tested)


def test_step_error_is_the_one_of_the_error_tree() -> None:
    assert adapter.StepError is errors.StepError


def test_a_star_import_brings_the_public_names() -> None:
    code = f"from adapter import *\nprint(sorted(set(dir()).intersection({PUBLIC!r})))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stdout.strip() == str(PUBLIC), ended.stderr
