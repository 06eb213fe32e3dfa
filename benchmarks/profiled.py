"""Almanac as a contender whose time is measured from inside; see ``benchmarks.seams``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

from adapter.engine.names import workflow_id
from benchmarks import processor, seams
from benchmarks.contenders.almanac import DEFINITION, Contestant
from benchmarks.statements import Statements, are_counted

if TYPE_CHECKING:
    from benchmarks.loads import Load
    from benchmarks.servers import Shared
    from benchmarks.statements import Served

START_CALL: Final = "the call of start"
TO_TURN: Final = "until the turn begins: relay, Temporal"
TURNS: Final = "in turns"
BETWEEN: Final = "between turns: Temporal"
TO_CALLER: Final = "until the caller knows of the end"
FIRST_APPEND: Final = "start to the first append"
CLOSE: Final = "last append to Temporal's close"
ELSE: Final = "the rest of the turn"
EXECUTING: Final = "append: the server executes"
PLANNING: Final = "append: the server plans"
COMMIT: Final = "append: commit, transport, waiting for the loop"
OTHERS_SERVED: Final = "other statements: the server plans and executes"

_SAMPLED: Final = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """One load. Milliseconds.

    Attributes:
        steps: Per step: the parts of a turn; they add up to ``per_step``.
        server: Per step: what the server and the rest take of the append's round trip.
        instances: Per instance: the parts of a life; they add up to ``per_instance``.
        marks: Per instance: spans that are no parts, since they overlap these.
        processor: Processor time per step.
        per_step: In turns, per step of an instance.
        per_instance: From the call of start until the caller knows of the end.
        appends_per_step: How many.
    """

    steps: dict[str, float]
    server: dict[str, float]
    instances: dict[str, float]
    marks: dict[str, float]
    processor: dict[str, float]
    per_step: float
    per_instance: float
    appends_per_step: float


class Profiled(Contestant):
    """Runs loads in this very process, and tells where their time went.

    Args:
        shared: The servers, for their process ids.
        ledger: What the seams write to.
    """

    def __init__(self, shared: Shared, ledger: seams.Ledger) -> None:
        super().__init__()
        self._shared = shared
        self._ledger = ledger
        self._statements: Statements | None = None

    def count_statements(self, database_url: str) -> bool:
        """Reads what PostgreSQL counts from now on; False if it does not count."""
        if not are_counted(self._shared.database_url):
            return False
        self._statements = Statements(self._shared.database_url, database_url)
        return True

    async def sample(self, load: Load, repeats: int) -> Sample:
        """Runs the load so often and tells the mean: processor time comes in ticks of 10 ms."""
        self._ledger.clear()
        served = self._served()
        used = self._used()
        for _ in range(repeats):
            await self.run(load)
        used = {name: seconds - used[name] for name, seconds in self._used().items()}
        closing = await self._closing()
        steps = load.total_steps * repeats
        after = self._served()
        return Sample(
            steps=self._of_steps(steps),
            server=(
                {}
                if served is None or after is None
                else self._of_server(after.since(served), steps)
            ),
            instances=self._of_instances(),
            marks={
                FIRST_APPEND: 1_000
                * fmean((life.first_append or 0) - life.started for life in self._lives()),
                CLOSE: 1_000 * closing,
            },
            processor={name: 1_000 * seconds / steps for name, seconds in used.items()},
            per_step=1_000 * self._turn_seconds() / steps,
            per_instance=1_000 * fmean(life.known - life.called for life in self._lives()),
            appends_per_step=self._ledger.appends / steps,
        )

    async def empty_statement_ms(self) -> float:
        """The round trip of a statement that does nothing: what transport alone costs."""
        taken = []
        for _ in range(100):
            began = seams.clock()
            await self._endings.fetch("SELECT 1")
            taken.append(seams.clock() - began)
        return 1_000 * median(taken)

    async def teardown(self) -> None:
        """Stops the worker."""
        if self._statements is not None:
            self._statements.close()
        await super().teardown()

    async def _chain(self, steps: int) -> int:
        called = seams.clock()
        started = await asyncio.to_thread(self._almanac.start, DEFINITION.format(steps=steps))
        life = self._ledger.lives[started.ulid]
        life.called, life.started = called, seams.clock()
        self._ulids.append(started.ulid)
        await self._endings.wait(started.ulid)
        life.known = seams.clock()
        return steps * (steps - 1) // 2

    def _used(self) -> dict[str, float]:
        return processor.processor_seconds(
            postgres=self._shared.postgres_pid, temporal=self._shared.temporal_pid
        )

    def _served(self) -> Served | None:
        return None if self._statements is None else self._statements.read()

    def _lives(self) -> list[seams.Life]:
        return list(self._ledger.lives.values())

    def _turn_seconds(self) -> float:
        return sum(end - begin for life in self._lives() for begin, end in life.turns)

    def _of_steps(self, steps: int) -> dict[str, float]:
        seconds = {part: self._ledger.seconds[part] for part in seams.PARTS}
        seconds[ELSE] = self._turn_seconds() - sum(seconds.values())
        return {part: 1_000 * value / steps for part, value in seconds.items()}

    def _of_server(self, served: Served, steps: int) -> dict[str, float]:
        inside = served.executing + served.planning
        return {
            EXECUTING: served.executing / steps,
            PLANNING: served.planning / steps,
            COMMIT: (1_000 * self._ledger.seconds[seams.ROUND_TRIP] - inside) / steps,
            OTHERS_SERVED: served.others_ms / steps,
        }

    def _of_instances(self) -> dict[str, float]:
        parts = dict.fromkeys((START_CALL, TO_TURN, TURNS, BETWEEN, TO_CALLER), 0.0)
        lives = self._lives()
        for life in lives:
            first, last = life.turns[0][0], life.turns[-1][1]
            inside = sum(end - begin for begin, end in life.turns)
            parts[START_CALL] += life.started - life.called
            parts[TO_TURN] += first - life.started
            parts[TURNS] += inside
            parts[BETWEEN] += last - first - inside
            parts[TO_CALLER] += life.known - last
        return {part: 1_000 * seconds / len(lives) for part, seconds in parts.items()}

    async def _closing(self) -> float:
        """Seconds from the last append to the close of the execution, the mean of a few."""
        spans = []
        for ulid in self._ulids[:_SAMPLED]:
            handle = self._client.get_workflow_handle(workflow_id(ulid))
            await handle.result()
            closed = (await handle.describe()).close_time
            assert closed is not None
            spans.append(closed.timestamp() - self._ledger.lives[ulid].ended_at)
        return fmean(spans)
