"""The run: every contender is set up and warmed up once, then all are measured round by round.

Within a round each load is given to all contenders one after the other, so that figures which are
compared lie seconds apart; who begins rotates from round to round. One works, the others idle.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.contract import Servers
from benchmarks.errors import ContenderFailed, NotInstalled
from benchmarks.loads import WARM_UP
from benchmarks.measures import Results
from benchmarks.stage import Stage
from benchmarks.taking import take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.databases import Databases
    from benchmarks.loads import Load
    from benchmarks.servers import Shared


@dataclass(slots=True)
class Run:
    """What came out of a run.

    Args:
        results: The samples.
        facts: By contender: versions and settings.
        extra: By contender: what only it measured.
        left_out: By contender that could not take part: why.
        failed: By contender that failed: how.
    """

    results: Results = field(default_factory=Results)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    extra: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Rounds:
    """Measures contenders with loads.

    Args:
        shared: The servers.
        databases: Makes the contenders' databases.
        loads: What each contender runs in each round.
        rounds: How many rounds.
        tell: Takes a line about what happens, for people.
    """

    def __init__(
        self,
        shared: Shared,
        databases: Databases,
        loads: Sequence[Load],
        rounds: int,
        tell: Callable[[str], None],
    ) -> None:
        self._shared = shared
        self._databases = databases
        self._loads = loads
        self._rounds = rounds
        self._tell = tell
        self._run = Run()
        self._stages: dict[str, Stage] = {}

    def measure(self, contenders: Sequence[str]) -> Run:
        """Runs all rounds; a contender that fails is dropped, its samples too."""
        with contextlib.ExitStack() as stages:
            for name in contenders:
                self._bring_on(name, stages)
            for number in range(self._rounds):
                for load in self._loads:
                    for name in self._order(number):
                        self._sample(number, load, name)
            for name in list(self._stages):
                with self._dropping(name):
                    self._run.extra[name] = self._stages[name].teardown()
        self._databases.drop(contenders)
        return self._run

    def _order(self, number: int) -> list[str]:
        names = list(self._stages)
        first = number % len(names) if names else 0
        return names[first:] + names[:first]

    def _bring_on(self, name: str, stages: contextlib.ExitStack) -> None:
        self._tell(f"{name}: setting up and warming up")
        directory = self._shared.directory / name
        directory.mkdir()
        servers = Servers(
            database_url=self._databases.create(name),
            temporal_address=self._shared.temporal_address,
            temporal_namespace=self._shared.temporal_namespace,
            directory=directory,
        )
        stage = stages.enter_context(Stage(name, self._shared.directory / f"{name}.log"))
        self._stages[name] = stage
        with self._dropping(name):
            self._run.facts[name] = stage.setup(servers)
            for load in (WARM_UP, *self._loads):
                stage.run(load)

    def _sample(self, number: int, load: Load, name: str) -> None:
        with self._dropping(name):
            seconds = take(self._stages[name], load)
            self._run.results.add(name, load, seconds)
            rate = load.total_steps / seconds
            self._tell(
                f"round {number + 1}/{self._rounds}  {load.name:>7}  {name:<18}{rate:8.0f} steps/s"
            )

    @contextlib.contextmanager
    def _dropping(self, name: str) -> Iterator[None]:
        """Drops a contender that cannot go on, so that the others can."""
        try:
            yield
        except NotInstalled as reason:
            self._run.left_out[name] = str(reason)
            self._tell(f"{name}: left out: {reason}")
        except ContenderFailed as failure:
            self._run.failed[name] = str(failure)
            self._tell(f"{name}: failed: {failure}")
        else:
            return
        self._run.results.seconds.pop(name, None)
        self._stages.pop(name).end()
