from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.survival.bed import Bed, open_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.register_assert_rewrite("tests.survival.records", "tests.workflow.checks")


@pytest.fixture
def bed(database_url: str, temporal_address: str, tmp_path: Path) -> Iterator[Bed]:
    with open_bed(database_url, temporal_address, tmp_path) as bed:
        yield bed
