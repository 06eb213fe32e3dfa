from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest
from ulid import ULID

from adapter.client.almanac import Almanac
from adapter.execution.registry import Registry
from adapter.settings import Settings
from temporal_workflows.dev.ports import free_ports
from tests.driving import programs
from tests.eventually import eventually
from tests.services.graphs import document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACTIONS = """
import adapter

@adapter.action("permits.greet")
def greet(name: str) -> str:
    return f"hello {name}"
"""
GREETING = document(
    nodes=[
        {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
        {
            "id": "greet",
            "type": "action",
            "config": {"action": "permits.greet", "input": {"name": "${ trigger.name }"}},
        },
    ],
    edges=[{"from": "begin", "to": "greet"}],
)


# as a shell without job control starts a job
_IN_THE_BACKGROUND = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")


class Command:
    """A command in a process of its own that begins with SIGINT ignored; its output in files."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("ALMANAC_")}
        self.out, self.err = directory / "stdout", directory / "stderr"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*_IN_THE_BACKGROUND, *programs.almanac(), *arguments],
                cwd=directory,
                env={**inherited, **environment, **programs.environment()},
                stdout=out,
                stderr=err,
            )

    def says(self, text: str) -> None:
        assert text in self.err.read_text()

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[list[Command]]:
    started: list[Command] = []
    yield started
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait()


def test_dev_runs_servers_until_it_is_told_to_stop(tmp_path: Path, commands: list[Command]) -> None:
    dev = Command(tmp_path, "dev", "--no-ui", "--json")
    commands.append(dev)

    eventually(lambda: dev.says("ready after"), 60)
    environment = json.loads(dev.out.read_text())
    with psycopg.connect(environment["ALMANAC_DATABASE_URL"]) as connection:
        assert connection.execute("SELECT count(*) FROM workflow_instances").fetchone() == (0,)
    lines = (tmp_path / ".almanac" / "environment").read_text()
    assert "export ALMANAC_DATABASE_URL=" in lines
    assert (tmp_path / ".almanac" / "environment").stat().st_mode & 0o077 == 0
    assert dev.end(signal.SIGINT) == 0
    address = urlsplit(environment["ALMANAC_DATABASE_URL"])
    with socket.socket() as probe:
        assert probe.connect_ex((address.hostname, address.port)) != 0


def test_dev_starts_its_own_servers_again_when_the_environment_names_them(
    tmp_path: Path, commands: list[Command]
) -> None:
    environment: dict[str, str] = {}
    for _ in range(2):
        dev = Command(tmp_path, "dev", "--no-ui", "--json", **environment)
        commands.append(dev)
        eventually(partial(dev.says, "ready after"), 60)
        assert "used as they are" not in dev.err.read_text()
        environment = json.loads(dev.out.read_text())
        assert dev.end(signal.SIGTERM) == 0


def test_dev_with_servers_of_somebody_else_needs_no_directory(
    tmp_path: Path, commands: list[Command], database_url: str, temporal_address: str
) -> None:
    named = {
        "ALMANAC_DATABASE_URL": database_url,
        "ALMANAC_TEMPORAL_ADDRESS": temporal_address,
        "ALMANAC_VALKEY_URL": "valkey://127.0.0.1:1",
    }
    dev = Command(tmp_path, "dev", "--no-ui", "--json", **named)
    commands.append(dev)

    eventually(lambda: dev.says("ready after"), 60)
    assert database_url in (tmp_path / ".almanac" / "environment").read_text()
    assert dev.end(signal.SIGTERM) == 0


def test_dev_says_which_named_server_does_not_answer(
    tmp_path: Path, commands: list[Command]
) -> None:
    url = f"postgresql://almanac@127.0.0.1:{free_ports(1)[0]}/almanac"
    nobody = {"ALMANAC_TEMPORAL_ADDRESS": "127.0.0.1:1", "ALMANAC_VALKEY_URL": "valkey://x"}
    dev = Command(tmp_path, "dev", "--no-ui", ALMANAC_DATABASE_URL=url, **nobody)
    commands.append(dev)

    assert dev.process.wait(60) == 5
    dev.says("error[database_unavailable]")
    dev.says("help: ALMANAC_DATABASE_URL names a server that does not answer; unset it")
    assert not (tmp_path / ".almanac").exists()
    assert "\\t" not in dev.err.read_text()


def test_a_worker_runs_instances_and_ends_with_zero(
    tmp_path: Path, commands: list[Command], database_url: str, temporal_address: str
) -> None:
    (tmp_path / "greetings.py").write_text(ACTIONS)
    worker = Command(
        tmp_path,
        "worker",
        "--import",
        "greetings",
        "--task-queue",
        str(ULID()),
        ALMANAC_DATABASE_URL=database_url,
        ALMANAC_TEMPORAL_ADDRESS=temporal_address,
    )
    commands.append(worker)
    with Almanac(Settings(database_url=database_url), registry=Registry()) as almanac:
        almanac.publish(GREETING, check_actions=False)
        started = almanac.start("permits", {"name": "you"})
        eventually(lambda: worker.says("actions: permits.greet"), 30)
        view = almanac.wait(started.ulid, timeout=30)

    assert view.steps[1].output == "hello you"
    assert worker.end(signal.SIGTERM) == 0
    assert worker.err.read_text().endswith("stopped\n")


def test_a_worker_without_modules_says_what_it_cannot_do(
    tmp_path: Path, commands: list[Command], database_url: str, temporal_address: str
) -> None:
    worker = Command(
        tmp_path,
        "worker",
        "--task-queue",
        str(ULID()),
        ALMANAC_DATABASE_URL=database_url,
        ALMANAC_TEMPORAL_ADDRESS=temporal_address,
    )
    commands.append(worker)
    eventually(lambda: worker.says("actions: none"), 30)
    eventually(lambda: worker.says("name the modules that register them: --import MODULE"), 5)
    with Almanac(Settings(database_url=database_url), registry=Registry()) as almanac:
        almanac.publish(GREETING, check_actions=False)
        almanac.start("permits", {"name": "you"})
        eventually(lambda: worker.says("no handler for action 'permits.greet'"), 30)
    assert worker.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("database", "code", "told"),
    [("migrated", 5, "temporal_unavailable"), ("empty", 6, "not_migrated")],
)
def test_a_worker_that_cannot_work_says_why(
    tmp_path: Path,
    commands: list[Command],
    database_url: str,
    empty_database_url: str,
    database: str,
    code: int,
    told: str,
) -> None:
    worker = Command(
        tmp_path,
        "worker",
        ALMANAC_DATABASE_URL=database_url if database == "migrated" else empty_database_url,
        ALMANAC_TEMPORAL_ADDRESS=f"127.0.0.1:{free_ports(1)[0]}",
    )
    commands.append(worker)

    assert worker.process.wait(60) == code
    worker.says(f"error[{told}]")
    text = worker.err.read_text()
    assert "tonic" not in text
    assert "Os {" not in text


def test_a_worker_without_its_namespace_says_so(
    tmp_path: Path, commands: list[Command], database_url: str, temporal_address: str
) -> None:
    worker = Command(
        tmp_path,
        "worker",
        ALMANAC_DATABASE_URL=database_url,
        ALMANAC_TEMPORAL_ADDRESS=temporal_address,
        ALMANAC_TEMPORAL_NAMESPACE="nowhere",
    )
    commands.append(worker)

    assert worker.process.wait(60) == 6
    worker.says("has no namespace 'nowhere'")
