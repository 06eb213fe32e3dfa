"""What every contender is: set up, run with one load after the other, taken down."""

from __future__ import annotations

import abc
import asyncio
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.errors import WrongResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from benchmarks.loads import Load


@dataclass(frozen=True, slots=True)
class Servers:
    """What a contender is given: servers that all share, a database and a directory of its own.

    Args:
        database_url: A libpq URL of an empty database that only this contender uses.
        temporal_address: host:port of Temporal's frontend.
        temporal_namespace: The namespace that all contenders share.
        directory: An empty directory, removed after the run.
    """

    database_url: str
    temporal_address: str
    temporal_namespace: str
    directory: Path

    def as_json(self) -> dict[str, str]:
        """The fields as strings, to send them to another process."""
        return {name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, fields: Mapping[str, str]) -> Servers:
        """The inverse of :meth:`as_json`."""
        return cls(
            fields["database_url"],
            fields["temporal_address"],
            fields["temporal_namespace"],
            Path(fields["directory"]),
        )


class Contender(abc.ABC):
    """One way to run chains of steps. It lives in a process of its own, with its only worker.

    Attributes:
        facts: What readers should know: versions and the settings that were chosen.
        extra: What only this contender measured, JSON values; read after :meth:`teardown`.
    """

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}

    @abc.abstractmethod
    async def setup(self, servers: Servers) -> None:
        """Makes tables, registers the chain, starts the worker; returns when it takes work.

        Raises:
            NotInstalled: It cannot take part on this machine.
        """

    @abc.abstractmethod
    async def run(self, load: Load) -> float:
        """Runs the load and returns the seconds from the first start to the last known result.

        Raises:
            WrongResult: A chain did not return what its steps add up to.
        """

    @abc.abstractmethod
    async def teardown(self) -> None:
        """Stops the worker; also called after a failure, perhaps of :meth:`setup` itself."""


async def drive(load: Load, chain: Callable[[int], Awaitable[object]]) -> float:
    """Runs ``load`` and returns the seconds it took; the same loop for every contender.

    ``load.at_once`` callers each start a chain, wait for its result and start the next, until
    none is left: a closed loop, as callers who wait for answers are.

    Args:
        load: How many chains, of how many steps, how many at a time.
        chain: Runs one chain of that many steps to its end; returns the sum of the steps' ``n``.

    Raises:
        WrongResult: A chain returned another sum.
    """
    left = iter(range(load.chains))

    async def caller() -> None:
        for _ in left:
            total = await chain(load.steps)
            if total != load.chain_total:
                raise WrongResult(
                    f"a chain of {load.steps} steps returned {total!r}, not {load.chain_total}"
                )

    started = time.perf_counter()
    async with asyncio.TaskGroup() as callers:
        for _ in range(min(load.at_once, load.chains)):
            callers.create_task(caller())
    return time.perf_counter() - started
