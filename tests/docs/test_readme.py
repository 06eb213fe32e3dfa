from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.docs.pages import read_page
from tests.driving import programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PAGE = read_page("README.md")


def test_the_first_workflow_prints_what_the_page_says(
    database_url: str, temporal_address: str, tmp_path: Path
) -> None:
    (program,) = PAGE.blocks("python")
    (expected,) = [block for block in PAGE.blocks("text") if block.text.startswith("completed")]
    (tmp_path / "orders.py").write_text(program.text)
    environment = {
        **os.environ,
        "ALMANAC_DATABASE_URL": database_url,
        "ALMANAC_TEMPORAL_ADDRESS": temporal_address,
        "ALMANAC_TASK_QUEUE": secrets.token_hex(8),
    }
    with worker(tmp_path, environment):
        done = subprocess.run(
            [sys.executable, "orders.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
    assert (done.stdout, done.stderr) == (expected.text, "")


@contextmanager
def worker(directory: Path, environment: Mapping[str, str]) -> Iterator[None]:
    almanac = programs.almanac(script=True)
    with (directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [*almanac, "worker", "--import", "orders"],
            cwd=directory,
            env={**environment, **programs.environment()},
            stderr=log,
        )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0, (directory / "worker.log").read_text()
    finally:
        process.kill()
        process.wait()


def test_the_first_workflow_fits_on_a_screen() -> None:
    (program,) = PAGE.blocks("python")
    assert len(program.text.splitlines()) < 40
