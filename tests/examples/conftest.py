"""How the example's programs are run: as processes, on the servers of the tests."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.driving.modes import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from temporal_workflows.dev.stack import Stack


@pytest.fixture
def run_program(
    pytestconfig: pytest.Config, stack: Stack, temporal_address: str, database_url: str
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``examples/permits/<name>`` with arguments; each test has a task queue of its own."""
    named = {
        "ALMANAC_DATABASE_URL": database_url,
        "ALMANAC_TEMPORAL_ADDRESS": temporal_address,
        "ALMANAC_TEMPORAL_NAMESPACE": stack.temporal_namespace,
        "ALMANAC_TASK_QUEUE": f"test-{secrets.token_hex(6)}",
        "COLUMNS": "200",
    }

    driven = ["-m", "tests.examples.driven"] if os.environ.get(VARIABLE) else []

    def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *driven, f"examples/permits/{name}", *map(str, arguments)],
            cwd=pytestconfig.rootpath,
            env={**os.environ, **named},
            capture_output=True,
            text=True,
            check=False,
        )

    return run
