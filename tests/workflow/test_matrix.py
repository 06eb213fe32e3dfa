from __future__ import annotations

import asyncio

import pytest

from tests.workflow.cells import CELLS, FATES, LEFT_OUT, PLACES, WHATS, Cell
from tests.workflow.checks import check_cell
from tests.workflow.matrix import Matrix, run_matrix


@pytest.fixture(scope="module")
def matrix(matrix_database_url: str, temporal_address: str) -> Matrix:
    return asyncio.run(run_matrix(matrix_database_url, temporal_address, "plain"))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_cell(matrix: Matrix, cell: Cell) -> None:
    check_cell(cell, matrix.cells[cell.id])


def test_every_cell_is_there_or_left_out_for_a_reason() -> None:
    assert len(CELLS) + len(LEFT_OUT) == len(WHATS) * len(PLACES) * len(FATES) == 150
    assert all(LEFT_OUT.values())


def test_no_execution_outlives_its_instance(matrix: Matrix) -> None:
    assert matrix.running == 0
