from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_leave_writes_what_is_buffered_and_keeps_the_code() -> None:
    ended = _run(
        "import sys\n"
        "from temporal_workflows.exiting import leave\n"
        "sys.stdout.write('said'); sys.stderr.write('complained')\n"
        "leave(3)\n"
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "said", "complained")


def test_leave_flushes_buffering_log_handlers() -> None:
    ended = _run(
        "import logging, logging.handlers, sys\n"
        "from temporal_workflows.exiting import leave\n"
        "target = logging.StreamHandler(sys.stdout)\n"
        "logging.getLogger().addHandler(logging.handlers.MemoryHandler(100, target=target))\n"
        "logging.getLogger().warning('kept back')\n"
        "leave(0)\n"
    )

    assert ended.stdout == "kept back\n"


def test_leave_does_not_wait_for_threads_or_exit_functions() -> None:
    ended = _run(
        "import atexit, threading\n"
        "from temporal_workflows.exiting import leave\n"
        "atexit.register(print, 'too late')\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "leave(0)\n"
    )

    assert (ended.returncode, ended.stdout) == (0, "")


def test_leave_keeps_the_code_when_nobody_reads_the_output() -> None:
    ended = _run(
        "import os, sys\n"
        "from temporal_workflows.exiting import leave\n"
        "sys.stdout.write('unread'); os.close(1)\n"
        "leave(4)\n"
    )

    assert ended.returncode == 4


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_test_run_that_used_temporal_reports_and_exits_as_any_other(
    tmp_path: Path, workers: list[str], pytestconfig: pytest.Config
) -> None:
    conftest = pytestconfig.rootpath / "tests" / "conftest.py"
    (tmp_path / "conftest.py").write_text(conftest.read_text())
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import temporalio.client\n"
        "def test_holds(): pass\n"
        "def test_fails(): assert False, 'on purpose'\n"
    )

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *workers, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert "on purpose" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout.splitlines()[-1]
    assert ended.stderr == ""
