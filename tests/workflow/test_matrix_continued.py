"""The matrix once more, with every run continued as new after its turn."""

from __future__ import annotations

import asyncio

import pytest

from tests.workflow.cells import CELLS, Cell
from tests.workflow.checks import check_cell
from tests.workflow.matrix import Matrix, run_matrix


@pytest.fixture(scope="module")
def matrix(matrix_database_url: str, temporal_address: str) -> Matrix:
    return asyncio.run(run_matrix(matrix_database_url, temporal_address, "continued"))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_cell(matrix: Matrix, cell: Cell) -> None:
    check_cell(cell, matrix.cells[cell.id])


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_a_run_for_every_turn(matrix: Matrix, cell: Cell) -> None:
    outcome = matrix.cells[cell.id]
    assert outcome.runs > outcome.turns - 1


def test_no_run_takes_a_second_turn(matrix: Matrix) -> None:
    assert len({(ulid, run) for ulid, run, _ in matrix.taken}) == len(matrix.taken)
    assert len(matrix.taken) > 2 * len(CELLS)


def test_no_execution_outlives_its_instance(matrix: Matrix) -> None:
    assert matrix.running == 0
