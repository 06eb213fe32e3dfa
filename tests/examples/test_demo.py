from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from examples.permits.cases import Cases
from examples.permits.log import read_log
from examples.permits.make_sample import (
    CLOSING,
    GRAPH,
    SAMPLE,
    graph_document,
    sample_rows,
)
from examples.permits.reporting import read_reports

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


def test_the_sample_is_what_its_script_makes() -> None:
    with SAMPLE.open(encoding="utf-8", newline="") as file:
        _, *rows = map(tuple, csv.reader(file))

    assert rows == sample_rows()


def test_the_graph_is_what_is_derived_from_the_sample() -> None:
    assert json.loads(GRAPH.read_text(encoding="utf-8")) == graph_document()


def test_the_sample_has_closed_and_open_cases() -> None:
    with Cases(read_log(SAMPLE)) as cases:
        assert cases.count == 150
        assert 20 < len(cases.ending_otherwise(CLOSING)) < 100


@pytest.mark.timeout(400)
def test_the_demo_ends_well_with_three_reports(
    run_program: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    ended = run_program("demo.py")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    reports = read_reports()
    assert len(reports) == 3
    assert [report.title for report in reports if report.title not in ended.stdout] == []
    assert "0 differences" in ended.stdout
    # although the environment of this test names servers
    assert "- starting PostgreSQL and Temporal" in ended.stdout
    assert "- stopping the servers; their data go with them" in ended.stdout
