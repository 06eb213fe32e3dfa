"""A run of the tests that is driven: counts, and fails when the driving had no effect."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.driving import modes, tally

MOST = 5
"""Findings that are told."""


class Counting:
    """A plugin for the process that leads the run; others append to its file."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "tally"
        self._mode = modes.chosen()
        self._told = ""
        self._wrong: list[str] = []
        os.environ[tally.VARIABLE] = str(self._file)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            return
        found = tally.Tally.read(self._file)
        self._told, self._wrong = found.told(self._mode), found.wrong(self._mode)
        if self._wrong and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"driven {self._mode}")
        terminalreporter.line(self._told)
        for line in self._wrong[:MOST]:
            terminalreporter.line(f"WRONG: {line}", red=True)
        if len(self._wrong) > MOST:
            terminalreporter.line(f"and {len(self._wrong) - MOST} more")


def count(config: pytest.Config) -> None:
    """Counts, if the run is driven and this process leads it."""
    if not os.environ.get(modes.VARIABLE) or hasattr(config, "workerinput"):
        return
    directory = tempfile.TemporaryDirectory(prefix="almanac-driven-")
    config.add_cleanup(directory.cleanup)
    config.pluginmanager.register(Counting(Path(directory.name)))
