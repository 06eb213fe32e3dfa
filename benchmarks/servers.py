"""The servers that all contenders share: one PostgreSQL, one Temporal, embedded by default."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from temporal_workflows.dev.child import Child
from temporal_workflows.dev.ports import free_ports
from temporal_workflows.dev.stack import VARIABLES, Stack
from temporal_workflows.dev.temporal import Temporal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# The server reads the transfer and the timer queue of a shard at most 20 times a second unless
# told otherwise, and an embedded one has a single shard: a lone chain would wait 50 ms for each
# activity, as it would not in a cluster whose shards are as good as idle.
TEMPORAL_SETTINGS: Final = {
    "history.transferProcessorMaxPollRPS": 1000,
    "history.timerProcessorMaxPollRPS": 1000,
}


@dataclass(frozen=True, slots=True)
class Shared:
    """Where the shared servers are, and a directory for what the contenders keep beside them."""

    database_url: str
    temporal_address: str
    temporal_namespace: str
    directory: Path


@contextlib.contextmanager
def shared_servers(*, own: bool) -> Iterator[Shared]:
    """Starts the servers for the length of the block.

    Args:
        own: Use the servers that ``ALMANAC_DATABASE_URL`` and ``ALMANAC_TEMPORAL_ADDRESS`` name;
            what they do not name is embedded all the same.
    """
    environ = dict(os.environ) if own else {}
    with contextlib.ExitStack() as running:
        directory = Path(
            running.enter_context(tempfile.TemporaryDirectory(prefix="almanac-benchmark-"))
        )
        if VARIABLES["temporal"] not in environ:
            environ[VARIABLES["temporal"]] = running.enter_context(
                _tuned_temporal(directory / "temporal")
            )
        stack = Stack.from_environment("postgres", "temporal", environ=environ)
        running.enter_context(stack)
        yield Shared(
            database_url=stack.database_url,
            temporal_address=stack.temporal_address,
            temporal_namespace=stack.temporal_namespace,
            directory=directory,
        )


class _TunedChild(Child):
    def start(
        self, command: Sequence[str | Path], is_ready: Callable[[], bool], *, deadline: float
    ) -> None:
        settings = [
            word
            for name, value in TEMPORAL_SETTINGS.items()
            for word in ("--dynamic-config-value", f"{name}={value}")
        ]
        super().start([*command, *settings], is_ready, deadline=deadline)


@contextlib.contextmanager
def _tuned_temporal(directory: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    server = Temporal(directory, port)
    server._child = _TunedChild("Temporal", directory / "log")
    server.start()
    try:
        yield server.address
    finally:
        server.stop()
