"""Processes that use Temporal, and how each of them is to end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]

_GRAPH = """
import asyncio, sys
from adapter import Almanac
from adapter.execution.registry import Registry
from adapter.settings import Settings
from temporal_workflows.worker import running_worker

node = {"id": "a", "type": "action", "config": {"action": "exits.a"}}
trigger = {"id": "t", "type": "trigger", "config": {"type": "manual"}}
graph = {"schema": "roundly.workflows.graph/v1", "key": "exits", "name": "exits",
         "nodes": [trigger, node], "edges": [{"from": "t", "to": "a"}]}
registry = Registry()
registry.action("exits.a")(lambda: 1)

def run(almanac):
    almanac.publish(graph)
    return almanac.wait(almanac.start("exits").ulid, 50).status
"""

_WORKER = (
    _GRAPH
    + """
async def main():
    with Almanac(registry=registry) as almanac:
        async with running_worker(almanac.settings, registry):
            print(await asyncio.to_thread(run, almanac), flush=True)
            LAST

asyncio.run(main())
"""
)

_CONNECTED = """
import asyncio
from adapter.engine.connecting import connect
from adapter.settings import Settings

async def main():
    HELDclient = await connect(Settings())
    async for _ in client.list_workflows():
        break
    LAST

asyncio.run(main())
"""


def _connected(last: str, held: str = "") -> str:
    return _CONNECTED.replace("LAST", last).replace("HELD", held)


_TEST = (
    _GRAPH
    + """
async def drive():
    with Almanac(registry=registry) as almanac:
        async with running_worker(almanac.settings, registry):
            return await asyncio.to_thread(run, almanac)

def test_a_host_runs_a_worker_in_its_tests():
    assert asyncio.run(drive()) == "STATUS"
"""
)

_FORKED = _connected("pass") + (
    "import os, sys\n"
    "child = os.fork()\n"
    "if child == 0:\n"
    "    sys.exit(5)\n"
    "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5\n"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A process.

    Attributes:
        arguments: Of Python.
        code: How it is to end.
        says: What it is to say, on either stream.
        files: What lies in its directory, by name.
        sent: The signal that it is sent ...
        after: ... once it has said this.
    """

    arguments: tuple[str, ...]
    code: int = 0
    says: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    sent: signal.Signals | None = None
    after: str = ""


def _script(
    text: str, code: int = 0, says: str = "", sent: signal.Signals | None = None, after: str = ""
) -> Kind:
    return Kind(("-W", "error", "it.py"), code, says, {"it.py": text}, sent, after)


PATIENCE = 60
"""Seconds that a process may take."""

_CLI = ("-m", "adapter.cli")
_READY = "is ready on task queue"
_STUCK = "print('as far as it goes', flush=True); await asyncio.Event().wait()"

KINDS: dict[str, Kind] = {
    "a worker that is told to stop": Kind(
        (*_CLI, "worker"), 0, "stopped", sent=signal.SIGTERM, after=_READY
    ),
    "a worker that is interrupted": Kind(
        (*_CLI, "worker"), 0, "stopped", sent=signal.SIGINT, after=_READY
    ),
    "a command that asks Temporal": Kind((*_CLI, "rebuild", "--all")),
    "a command that does not": Kind((*_CLI, "list")),
    "a script with a worker": _script(_WORKER.replace("LAST", "pass"), 0, "completed"),
    "a script whose worker is left by an error": _script(
        _WORKER.replace("LAST", "raise ValueError('on purpose')"), 1, "ValueError: on purpose"
    ),
    "a script whose worker is left by sys.exit": _script(_WORKER.replace("LAST", "sys.exit(3)"), 3),
    "a script whose worker is interrupted": _script(
        _WORKER.replace("LAST", _STUCK),
        -signal.SIGINT,
        "KeyboardInterrupt",
        signal.SIGINT,
        "as far as it goes",
    ),
    "a script that ends with a call": _script(_connected("pass")),
    "a script that keeps its client": _script(_connected("pass", held="global client; ")),
    "a script that fails after a call": _script(
        _connected("raise ValueError('on purpose')"), 1, "on purpose"
    ),
    "a script that forks": _script(_FORKED),
    "a test run with a worker": Kind(
        ("-m", "pytest", "-q", "-p", "no:cacheprovider", "."),
        0,
        "1 passed",
        {"test_it.py": _TEST.replace("STATUS", "completed")},
    ),
    "a test run that fails": Kind(
        ("-m", "pytest", "-q", "-p", "no:cacheprovider", "."),
        1,
        "1 failed",
        {"test_it.py": _TEST.replace("STATUS", "failed")},
    ),
}
"""The processes, by what they are."""


async def end(kind: Kind, directory: Path, settings: Mapping[str, str]) -> str | None:
    """Runs a process to its end.

    Args:
        kind: Which.
        directory: Where; an own one for each.
        settings: Of Almanac, as environment variables.

    Returns:
        What was wrong with its end; None if nothing was.
    """
    for name, text in kind.files.items():
        (directory / name).write_text(text)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ALMANAC_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *kind.arguments,
        cwd=directory,
        env={**inherited, **settings, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=_hear_interrupts,
    )
    said: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE):
            await _listen(process, kind, said)
            code = await process.wait()
    except TimeoutError:
        return f"it did not end, and said:\n{''.join(said)}"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = "".join(said)
    if code == kind.code and kind.says in text and "Fatal Python error" not in text:
        return None
    return f"it ended with {code} and not {kind.code}, and said:\n{text}"


def _hear_interrupts() -> None:
    """What a shell runs in the background ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def _listen(process: asyncio.subprocess.Process, kind: Kind, said: list[str]) -> None:
    assert process.stdout is not None
    told = False
    async for line in process.stdout:
        said.append(line.decode())
        if kind.sent is not None and not told and kind.after in said[-1]:
            process.send_signal(kind.sent)
            told = True
