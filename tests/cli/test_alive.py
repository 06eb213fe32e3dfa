from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import psycopg
import pytest
from ulid import ULID

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

HERE = socket.gethostname()


class Signs:
    """Rows of workers."""

    def __init__(self, url: str) -> None:
        self._url = url

    def add(
        self, host: str = HERE, ago: float = 1, *, queue: str = "almanac", stopped: bool = False
    ) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO workflow_workers"
                " (id, name, task_queue, started_at, seen_at, stopped_at, details) "
                " VALUES (%s, %s, %s, now(), now() - make_interval(secs => %s),"
                " CASE WHEN %s THEN now() END, '{}')",
                [str(ULID()), f"{host}:4711", queue, ago, stopped],
            )


@pytest.fixture
def signs(database_url: str) -> Signs:
    return Signs(database_url)


def test_a_worker_of_this_host_that_gave_a_sign_lives(cli: Cli, signs: Signs) -> None:
    signs.add(ago=5)
    assert cli("worker", "--alive").code == 0


def test_others_and_silent_and_stopped_ones_do_not_count(cli: Cli, signs: Signs) -> None:
    signs.add("another-host")
    signs.add(f"{HERE}2")
    signs.add(ago=11)
    signs.add(stopped=True)
    signs.add(queue="other")
    run = cli("worker", "--alive")
    assert run.code == 5
    assert run.err.startswith(f"error[no_worker_alive]: no worker of {HERE} on task queue almanac")
    assert cli("worker", "--alive", "--task-queue", "other").code == 0


def test_a_database_that_does_not_answer_or_has_no_tables_is_not_alive(
    cli: Cli, empty_database_url: str
) -> None:
    assert cli("--database-url", empty_database_url, "worker", "--alive").code == 6
    gone = cli("--database-url", "postgresql://x@127.0.0.1:1/x", "worker", "--alive")
    assert gone.code == 5
    assert gone.err.startswith("error[database_unavailable]")
