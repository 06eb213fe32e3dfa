from __future__ import annotations

import csv
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from adapter.settings import Settings, TableNames
from examples.permits.cases import Cases
from examples.permits.compare import Run, differences, follows_in_tables
from examples.permits.derive import derive
from examples.permits.log import read_log
from examples.permits.surroundings import other_workers

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Program = Callable[..., subprocess.CompletedProcess[str]]

ROWS = [
    # a case of one row, and one whose rows stand out of order with several offsets
    ("lone", "Receive", "2024-03-01T09:00:00", "Ann"),
    ('c/2 "é"', "許可 🏗️", "2024-03-02T09:00:00+09:00", "Bob"),
    ('c/2 "é"', "Receive", "2024-03-01T23:59:59Z", ""),
    ('c/2 "é"', "Receive", "2024-03-02T00:00:01Z", "Ann"),
    # names that look like expressions, differ in unsafe characters or only beyond the limit
    ("${trigger.case}", "Receive", "2024-03-03T08:00:00Z", "Ann"),
    ("${trigger.case}", "${trigger.run}", "2024-03-03T08:00:00Z", "Ann"),
    ("${trigger.case}", "a-b", "2024-03-03T08:00:00Z", "Ann"),
    ("${trigger.case}", "a b", "2024-03-03T08:00:00Z", "Ann"),
    ("${trigger.case}", "n" * 250 + "1", "2024-03-03T08:00:00Z", "Ann"),
    ("${trigger.case}", "n" * 250 + "2", "2024-03-03T08:00:00Z", "Ann"),
    ("${trigger.case}", "a b", "2024-03-03T09:00:00Z", "Ann"),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "odd log.csv"
    with file.open("w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(["case", "activity", "timestamp", "resource", "run"])
        writer.writerows([*row, "by hand"] for row in ROWS)
    return file


def _last_line(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    line = json.loads(ended.stdout.splitlines()[-1])
    assert isinstance(line, dict)
    return line


@pytest.mark.timeout(300)
def test_the_tables_count_what_the_log_does(
    run_program: Program, database_url: str, log: Path
) -> None:
    for _ in range(2):  # again on the same database: each replay counts its own cases
        ended = run_program("replay.py", "--log", log, "--json")

        assert ended.returncode == 0, ended.stderr
        line = _last_line(ended)
        assert line.pop("seconds") > 0
        assert line == {"cases": 3, "events": len(ROWS), "mismatches": 0}

    with psycopg.connect(database_url, autocommit=True) as connection:
        runs = connection.execute(
            "SELECT definition_id, trigger_payload ->> 'run', count(*),"
            " count(*) FILTER (WHERE status = 'completed')"
            " FROM workflow_instances GROUP BY 1, 2"
        ).fetchall()
        assert [tuple(row[2:]) for row in runs] == [(3, 3), (3, 3)]
        assert _outputs(connection) == Counter(
            (activity, resource) for _, activity, _, resource in ROWS * 2
        )
        _damage_one_step(connection)
        with Cases(read_log(log)) as cases:
            nodes = derive("odd log", cases.activities()).nodes
            in_log = cases.follows()
        damaged = [
            differences(in_log, follows_in_tables(connection, TableNames(), Run(*row[:2]), nodes))
            for row in runs
        ]
    assert sorted(map(bool, damaged)) == [False, True]


def _outputs(connection: psycopg.Connection[Any]) -> Counter[tuple[str, str]]:
    found = connection.execute(
        "SELECT output ->> 'activity', output ->> 'resource' FROM workflow_step_runs"
        " WHERE node_type = 'action'"
    )
    return Counter((activity, resource) for activity, resource in found)


def _damage_one_step(connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "UPDATE workflow_step_runs SET status = 'failed' WHERE id ="
        " (SELECT min(id) FROM workflow_step_runs WHERE node_type = 'action')"
    )


@pytest.mark.timeout(300)
def test_the_newest_cases_can_be_left_waiting(
    run_program: Program, database_url: str, log: Path
) -> None:
    ended = run_program("replay.py", "--log", log, "--leave-open", "1")

    assert ended.returncode == 0, ended.stderr
    assert "as the log does" in ended.stdout
    assert "as ALMANAC_DATABASE_URL says" in ended.stderr
    assert "the instances stay in 127.0.0.1:" in ended.stderr
    assert "starting PostgreSQL" not in ended.stderr
    assert "warning" not in ended.stderr
    with psycopg.connect(database_url) as connection:
        waiting = connection.execute(
            "SELECT trigger_payload ->> 'case', current_node_id FROM workflow_instances"
            " WHERE status = 'waiting'"
        ).fetchall()
    assert waiting == [("${trigger.case}", "next")]


def test_other_workers_of_the_database_are_warned_of(database_url: str) -> None:
    settings = Settings(database_url=database_url)
    seen = "INSERT INTO workflow_workers (id, name, task_queue, started_at, seen_at, stopped_at)"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            f"{seen} VALUES ('gone', 'a', 'q', now(), now() - interval '1 minute', NULL),"
            " ('left', 'a', 'q', now(), now(), now())"
        )
        assert other_workers(settings) is None
        connection.execute(f"{seen} VALUES ('lives', 'a', 'q', now(), now(), NULL)")
        warning = other_workers(settings)

    assert warning is not None
    assert warning.startswith("warning: another worker runs on this database")


def test_a_log_that_cannot_be_read_ends_with_2_and_one_line_of_json(
    run_program: Program, tmp_path: Path
) -> None:
    file = tmp_path / "log.csv"
    file.write_text("case,activity,timestamp,resource\nc,a,soon,Ann\n")

    ended = run_program("replay.py", "--log", file, "--json")

    assert ended.returncode == 2
    assert "Line 2: timestamp 'soon'" in ended.stderr
    assert _last_line(ended)["error"]["code"] == "invalid_log"


def test_a_case_that_is_longer_than_an_instance_may_be_is_refused(
    run_program: Program, tmp_path: Path
) -> None:
    file = tmp_path / "log.csv"
    rows = "".join("c,a,2024-03-01,Ann\n" for _ in range(33_333))
    file.write_text(f"case,activity,timestamp,resource\n{rows}")

    ended = run_program("replay.py", "--log", file)

    assert ended.returncode == 2
    assert "Case 'c' has 33,333 rows" in ended.stderr
