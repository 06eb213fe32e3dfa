"""The matrix once more, with every turn taken and every queued step run twice."""

from __future__ import annotations

import asyncio

import pytest

from adapter.interpreter import entries as kinds
from tests.workflow.cells import CELLS, Cell
from tests.workflow.checks import check_cell
from tests.workflow.matrix import Matrix, run_matrix

NEWS = {
    kinds.INBOX_APPLIED,
    kinds.WAIT_FIRED,
    kinds.WAIT_TIMED_OUT,
    kinds.WAIT_ADVANCED,
    kinds.WAIT_FAILED,
    kinds.PAUSED,
    kinds.RESUMED,
    kinds.RETRIED,
    kinds.CANCELLED,
}
"""What the second of two turns can begin with: something has come meanwhile."""


@pytest.fixture(scope="module")
def matrix(matrix_database_url: str, temporal_address: str) -> Matrix:
    return asyncio.run(run_matrix(matrix_database_url, temporal_address, "twice"))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_cell(matrix: Matrix, cell: Cell) -> None:
    check_cell(cell, matrix.cells[cell.id])


def test_every_turn_was_taken_twice(matrix: Matrix) -> None:
    assert {count % 2 for count in matrix.taken.values()} == {0}


def test_second_turns_write_only_what_has_come_meanwhile(matrix: Matrix) -> None:
    assert len(matrix.again) < len(matrix.taken) / 2
    assert [written for _, written in matrix.again if written[0] not in NEWS] == []


def test_no_execution_outlives_its_instance(matrix: Matrix) -> None:
    assert matrix.running == 0
