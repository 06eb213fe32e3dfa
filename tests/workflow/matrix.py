"""All cells at once on one worker: started together, driven each in its way, then read."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncpg
from temporalio.worker import UnsandboxedWorkflowRunner

from adapter.engine.names import workflow_id
from adapter.records.writers import is_step_token
from temporal_workflows.worker import running_worker
from tests.driving.parts import CountedTurns, TwiceTurns, driving
from tests.eventually import eventually_async
from tests.workflow.cell_driving import Driving, Handlers, Watch
from tests.workflow.cells import CELLS, KID, document
from tests.workflow.recorded import read
from tests.workflow.system import open_system

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.workflow.cells import Cell
    from tests.workflow.recorded import Recorded
    from tests.workflow.system import System

AT_ONCE = 30


@dataclass(slots=True)
class Outcome:
    """One cell after it was driven.

    Attributes:
        error: What went wrong on the way.
        paused: Step runs while it was paused and what it waits for had come.
        calls: How often each step run's handler was called.
        stopped: Whether the handler of role 2 was asked to stop.
        runs: How many runs its executions have had, as Temporal says.
        turns: How many turns they have taken.
    """

    recorded: Recorded | None = None
    children: list[Recorded] = field(default_factory=list)
    error: str | None = None
    paused: Recorded | None = None
    calls: Counter[int] = field(default_factory=Counter)
    stopped: bool = False
    runs: int = 0
    turns: int = 0


@dataclass(slots=True)
class Matrix:
    """All cells after they were driven."""

    cells: dict[str, Outcome]
    taken: Counter[tuple[str, str, str]]
    """How often each turn was taken."""

    again: list[tuple[str, list[str]]]
    """Instance and kinds of entries for each second turn that wrote anything."""

    running: int
    """Executions that were left in Temporal after all instances had ended."""

    seconds: float


async def run_matrix(
    database_url: str, temporal_address: str, mode: str, cells: Sequence[Cell] = CELLS
) -> Matrix:
    """Drives all cells to their ends, and reads what stands in the record then."""
    handlers = Handlers()
    CountedTurns.taken.clear()
    TwiceTurns.again.clear()
    began = time.monotonic()
    # Waiting for a command holds a thread.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(AT_ONCE))
    async with open_system(database_url, temporal_address, queue=f"matrix-{mode}") as system:
        handlers.register(system)
        for graph in (KID, *map(document, cells)):
            await system.call(system.almanac.publish, graph)
        with driving(mode):
            async with (
                running_worker(
                    system.settings,
                    system.almanac.registry,
                    client=system.client,
                    workflow_runner=UnsandboxedWorkflowRunner(),
                ),
                asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
            ):
                watch = Watch(pool, system.settings)
                looking = asyncio.create_task(watch.run())
                outcomes = await _drive_all(cells, system, watch, handlers)
                looking.cancel()
                running = await _left_running(system)
        again = await _again(system)
        turns = Counter(ulid for ulid, _, _ in CountedTurns.taken)
        for outcome in outcomes.values():
            if outcome.recorded is not None:
                ulid = outcome.recorded.instance["ulid"]
                outcome.turns = turns[ulid]
                query = f"WorkflowId = '{workflow_id(ulid)}'"
                outcome.runs = (await system.client.count_workflows(query)).count
    taken = CountedTurns.taken.copy()
    return Matrix(outcomes, taken, again, running, time.monotonic() - began)


async def _drive_all(
    cells: Sequence[Cell], system: System, watch: Watch, handlers: Handlers
) -> dict[str, Outcome]:
    slots = asyncio.Semaphore(AT_ONCE)
    outcomes = {cell.id: Outcome() for cell in cells}
    ulids: dict[str, str] = {}

    async def drive(cell: Cell) -> None:
        driver = Driving(cell, system, watch, handlers)
        async with slots:
            try:
                outcomes[cell.id].paused = await driver.run()
            except Exception as error:
                outcomes[cell.id].error = f"{type(error).__name__}: {error}"
        ulids[cell.id] = driver.ulid

    # The ones that take longest first.
    slow = {("delay", "pause"), ("queued", "timeout")}
    await asyncio.gather(*map(drive, sorted(cells, key=lambda c: (c.what, c.fate) not in slow)))
    await _until_quiet(watch.pool, system)
    stopping = {cell.id for cell in cells if cell.stops}

    async def stopped() -> bool:
        return handlers.stopped >= stopping

    await _eventually(stopped)
    recorded = await read(system)
    for cell in cells:
        outcome = outcomes[cell.id]
        outcome.recorded = recorded.get(ulids[cell.id])
        outcome.calls = handlers.calls[cell.id]
        outcome.stopped = cell.id in handlers.stopped
        if outcome.recorded is not None:
            key = outcome.recorded.instance["id"]
            outcome.children = [
                r for r in recorded.values() if r.instance["parent_instance_id"] == key
            ]
    return outcomes


async def _until_quiet(pool: asyncpg.Pool[Any], system: System) -> None:
    """Children that were cancelled with their parent end a little after it."""
    names = system.settings.tables

    async def left() -> bool:
        found: bool = await pool.fetchval(
            f"SELECT EXISTS (SELECT FROM {names.instances} i WHERE i.ended_at IS NULL OR EXISTS"
            f" (SELECT FROM {names.inbox} b WHERE b.instance_id = i.id AND b.applied_at IS NULL))"
        )
        return found

    await _eventually(left, False)


async def _left_running(system: System) -> int:
    query = f"TaskQueue = '{system.settings.task_queue}' AND ExecutionStatus = 'Running'"
    count = 0

    async def none() -> bool:
        nonlocal count
        count = (await system.client.count_workflows(query)).count
        return count == 0

    await _eventually(none)
    return count


async def _eventually(look: Callable[[], Awaitable[bool]], wanted: bool = True) -> None:
    """Waits for something; that it did not come is told by the cells that it is missing from."""

    async def there() -> None:
        assert await look() is wanted

    with suppress(AssertionError):
        await eventually_async(there)


async def _again(system: System) -> list[tuple[str, list[str]]]:
    recorded = await read(system, sorted({ulid for ulid, _, _ in TwiceTurns.again}))
    found = [
        (
            ulid,
            [
                row["kind"]
                for row in recorded[ulid].journal
                # Queued steps write on their own account, also between the two.
                if first <= row["seq"] <= last and not is_step_token(row["writer"])
            ],
        )
        for ulid, first, last in TwiceTurns.again
    ]
    return [(ulid, kinds) for ulid, kinds in found if kinds]
