"""Workers in processes of their own, to be killed, with handlers that write down what they do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from tests.driving import programs
from tests.eventually import eventually_async

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workflow.system import System


@dataclass(slots=True)
class Workers:
    """Workers of one system.

    Attributes:
        directory: Where they run; handlers append to files in it.
        settings: More settings of theirs, as environment variables without their prefix.
    """

    system: System
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def module(self, name: str, text: str) -> None:
        """Writes a module of handlers; ``log(word)`` in it appends a line to ``log``."""
        written = self.directory / f"{name}.py"
        written.write_text(
            "import os, time\nimport adapter\n\n"
            "def log(word):\n"
            "    with open('log', 'a') as lines:\n"
            "        lines.write(f'{word} {os.getpid()}\\n')\n\n" + text
        )

    def start(self, *modules: str) -> subprocess.Popen[bytes]:
        """Starts a worker with the handlers of these modules."""
        chosen = self.system.settings
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("ALMANAC_")}
        named = {
            "DATABASE_URL": chosen.database_url or "",
            "TEMPORAL_ADDRESS": chosen.temporal_address or "",
            "TASK_QUEUE": chosen.task_queue,
            **self.settings,
        }
        imports = [part for module in modules for part in ("--import", module)]
        with (self.directory / f"err{len(self.started)}").open("wb") as err:
            process = subprocess.Popen(
                [*programs.almanac(), "worker", *imports],
                cwd=self.directory,
                env={
                    **inherited,
                    **{f"ALMANAC_{name}": value for name, value in named.items()},
                    **programs.environment(str(self.directory)),
                },
                stderr=err,
            )
        self.started.append(process)
        return process

    def log(self) -> list[str]:
        """The words that handlers wrote down, in order."""
        return [line.split()[0] for line in self.lines()]

    def lines(self) -> list[str]:
        """The same with the process that wrote each."""
        written = self.directory / "log"
        return written.read_text().splitlines() if written.exists() else []

    async def wrote(self, word: str, times: int = 1, deadline: float = 30) -> None:
        """Waits until a word has been written so often."""

        async def has() -> None:
            assert self.log().count(word) >= times, self.log()

        await eventually_async(has, deadline)

    async def up(self, count: int) -> None:
        """Waits until so many workers have given a sign of life."""
        url = self.system.settings.database_url or ""

        def signs() -> int:
            with psycopg.connect(url) as connection:
                row = connection.execute("SELECT count(*) FROM workflow_workers").fetchone()
            return 0 if row is None else int(row[0])

        async def has() -> None:
            assert await asyncio.to_thread(signs) == count

        await eventually_async(has, 30)

    def err(self, number: int) -> str:
        """What a worker wrote to stderr."""
        return (self.directory / f"err{number}").read_text()

    @staticmethod
    def stop(process: subprocess.Popen[bytes]) -> float:
        """Asks a worker to stop; returns the seconds that it took."""
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
        return time.monotonic() - began

    def close(self) -> None:
        """Kills what still runs."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
