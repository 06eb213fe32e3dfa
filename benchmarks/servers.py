"""The servers that all contenders share: one PostgreSQL, one Temporal, embedded by default."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.statements import have_statements_counted
from temporal_workflows.dev.ports import free_ports
from temporal_workflows.dev.stack import VARIABLES, Stack
from temporal_workflows.dev.temporal import Temporal

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Shared:
    """Where the servers are, their pids if embedded, a directory for what contenders keep."""

    database_url: str
    temporal_address: str
    temporal_namespace: str
    directory: Path
    postgres_pid: int | None = None
    temporal_pid: int | None = None


@contextlib.contextmanager
def shared_servers(*, own: bool, counted: bool = False, kept: bool = False) -> Iterator[Shared]:
    """Starts the servers for the length of the block.

    Args:
        own: Use the servers that ``ALMANAC_DATABASE_URL`` and ``ALMANAC_TEMPORAL_ADDRESS`` name;
            what they do not name is embedded all the same.
        counted: Have an embedded PostgreSQL count what each statement costs it.
        kept: Run Temporal as ``almanac dev`` does, its state in a file and its task queues read
            without delay, not as ``temporal server start-dev`` comes.
    """
    environ = dict(os.environ) if own else {}
    with contextlib.ExitStack() as running:
        directory = Path(
            running.enter_context(tempfile.TemporaryDirectory(prefix="almanac-benchmark-"))
        )
        plain: Temporal | None = None
        if not kept and VARIABLES["temporal"] not in environ:
            plain = Temporal(directory / "temporal", *free_ports(1), plain=True)
            plain.start()
            running.callback(plain.stop)
            environ[VARIABLES["temporal"]] = plain.address
        stack = Stack.from_environment("postgres", "temporal", environ=environ)
        running.enter_context(stack)
        if counted and "postgres" not in stack.addresses:
            have_statements_counted(stack)
        yield Shared(
            database_url=stack.database_url,
            temporal_address=stack.temporal_address,
            temporal_namespace=stack.temporal_namespace,
            directory=directory,
            postgres_pid=None if "postgres" in stack.addresses else stack.postgres.pid,
            temporal_pid=plain.pid if plain is not None else _pid(stack),
        )


def _pid(stack: Stack) -> int | None:
    return None if "temporal" in stack.addresses else stack.temporal.pid
