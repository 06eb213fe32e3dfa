"""All cells at once on one worker: started together, driven each in its way, then read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson
from temporalio.worker import UnsandboxedWorkflowRunner

from adapter.engine.names import workflow_id
from adapter.errors import StepError
from adapter.interpreter.apply import fold
from adapter.interpreter.state import State
from adapter.records.load import Loader
from adapter.records.writers import is_step_token
from temporal_workflows.worker import running_worker
from tests.driving.parts import CountedTurns, TwiceTurns, driving
from tests.eventually import eventually_async
from tests.workflow.cells import CELLS, KID, document
from tests.workflow.system import open_system

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adapter.execution.context import ActionContext
    from tests.workflow.cells import Cell
    from tests.workflow.system import System

LOOK = 0.1
PATIENCE = 30.0
AT_ONCE = 30

Row = dict[str, Any]


@dataclass(slots=True)
class Recorded:
    """Everything that the record says about one instance at its end."""

    instance: Row
    steps: list[Row]
    waits: list[Row]
    journal: list[Row]
    inbox: list[Row]
    state: State


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


class Handlers:
    """The one handler of all cells: what it does is said by role and fate."""

    def __init__(self) -> None:
        self.calls: dict[str, Counter[int]] = defaultdict(Counter)
        self.stopped: set[str] = set()
        self.gates: dict[str, threading.Event] = defaultdict(threading.Event)
        self._failed: set[str] = set()

    def register(self, system: System) -> None:
        @system.almanac.registry.action("act")
        async def act(ctx: ActionContext, role: str, fate: str, cell: str) -> dict[str, str]:
            self.calls[cell][int(ctx.step.id)] += 1
            if role == "2":
                await self._act(fate, cell)
            return {"role": role}

    async def _act(self, fate: str, cell: str) -> None:
        if fate in ("timeout", "cancel"):
            await self._until_stopped(cell)
        elif fate in ("pause", "failure", "retry") and cell not in self._failed:
            await eventually_async(partial(self._opened, cell), PATIENCE)
            if fate != "pause":
                self._failed.add(cell)
                raise StepError("broken", "it broke", retryable=False)

    async def _opened(self, cell: str) -> None:
        assert self.gates[cell].is_set()

    async def _until_stopped(self, cell: str) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            self.stopped.add(cell)
            raise


class Watch:
    """What stands in the record, looked up once for all cells."""

    def __init__(self, pool: asyncpg.Pool[Any], settings: Any) -> None:
        self.pool = pool
        self._names = settings.tables
        self._changed = asyncio.Condition()
        self.statuses: dict[str, str] = {}
        self.steps: dict[str, dict[tuple[str, int, int], str]] = {}

    async def run(self) -> None:
        """Looks until it is cancelled."""
        names = self._names
        while True:
            rows = await self.pool.fetch(
                f"SELECT i.ulid, i.status AS instance, s.node_id, s.visit, s.attempt, s.status"
                f" FROM {names.instances} i JOIN {names.step_runs} s ON s.instance_id = i.id"
            )
            steps: dict[str, dict[tuple[str, int, int], str]] = defaultdict(dict)
            for row in rows:
                self.statuses[row["ulid"]] = row["instance"]
                steps[row["ulid"]][row["node_id"], row["visit"], row["attempt"]] = row["status"]
            self.steps = steps
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(LOOK)

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits until something holds."""
        try:
            async with asyncio.timeout(PATIENCE), self._changed:
                await self._changed.wait_for(holds)
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE:g} s: {what}") from None

    def is_at(self, ulid: str, status: str) -> bool:
        """Whether an instance has a status."""
        return self.statuses.get(ulid) == status

    def has(self, ulid: str, node: str, visit: int, *statuses: str, attempt: int = 1) -> bool:
        """Whether a step run has one of the statuses."""
        return self.steps.get(ulid, {}).get((node, visit, attempt)) in statuses


class Driving:
    """Drives one cell by what a host can do: start, emit and command."""

    def __init__(self, cell: Cell, system: System, watch: Watch, handlers: Handlers) -> None:
        self.cell = cell
        self.system = system
        self.watch = watch
        self.handlers = handlers
        self.ulid = ""
        self.paused: str | None = None

    async def run(self) -> Recorded | None:
        """Drives the cell to its end; gives what stood there while it was paused."""
        cell, almanac = self.cell, self.system.almanac
        started = await self.system.call(almanac.start, cell.id, {"cell": cell.id})
        self.ulid = started.ulid
        seen = None
        match cell.fate:
            case "success":
                await self._emit("1", "2")
            case "failure":
                await self._failure()
            case "timeout":
                await self._emit("1")
            case "pause":
                seen = await self._pause()
            case "cancel":
                await self._under_way()
                await self._command(almanac.cancel)
            case _:
                await self._retry()
        await self.watch.until(
            f"the end of {cell.id}",
            lambda: self.watch.statuses.get(self.ulid) in ("completed", "failed", "cancelled"),
        )
        return seen

    async def _failure(self) -> None:
        if self.cell.what == "wait" and self.cell.place == "body":
            await self._emit("1")
        if self.cell.what in ("action", "queued", "child"):
            await self._under_way()
            await self._let_go()

    async def _retry(self) -> None:
        if self.cell.fails_on:
            await self._emit(*(["2"] if self.cell.concurrent else ["1", "2"]))
            visit = 2 if self.cell.place == "body" else 1
            await self._until_step("check", visit, "running")
            await self._others("waiting" if self.cell.concurrent else "succeeded")
        else:
            await self._under_way()
        await self._let_go()
        await self.watch.until(
            f"the failure of {self.cell.id}", lambda: self.watch.is_at(self.ulid, "failed")
        )
        await self._command(self.system.almanac.retry)
        if self.cell.what == "child":
            await self._kid_under_way()
            await self._let_go()
        if self.cell.concurrent:
            await self._emit("1")

    async def _pause(self) -> Recorded:
        await self._under_way()
        await self._command(self.system.almanac.pause)
        match self.cell.what:
            case "action" | "queued":
                await self._let_go()
                await self._until_step("x", self.cell.visit, "succeeded")
            case "wait":
                await self._emit("2")
                await self._news_came()
            case "delay":
                await self._overdue()
            case _:
                await self._let_go()
                await self._kid_reported()
        seen = (await read(self.system, [self.ulid]))[self.ulid]
        await self._command(self.system.almanac.resume)
        return seen

    async def _under_way(self) -> None:
        """Role 1 is done, role 2 has begun."""
        await self._emit("1")
        if (self.cell.what, self.cell.fate) != ("delay", "pause"):  # Both are over while paused.
            await self._others("succeeded")
        await self._until_step("x", self.cell.visit, "running", "waiting")
        if self.cell.what == "child":
            await self._kid_under_way()

    async def _kid_under_way(self) -> None:
        names = self.system.settings.tables
        await self._until_row(
            f"SELECT count(*) FROM {names.instances} p JOIN {names.instances} c"
            f" ON c.parent_instance_id = p.id JOIN {names.step_runs} s ON s.instance_id = c.id"
            " WHERE p.ulid = $1 AND s.node_id = 'held' AND s.status = 'waiting'"
        )

    async def _others(self, status: str) -> None:
        cell = self.cell
        others = [("x", 1)] if cell.visit == 2 else []
        if cell.place in ("branch", "nested"):
            others.append(("y", 1))
        for node, visit in others:
            await self._until_step(node, visit, status)

    async def _until_step(self, node: str, visit: int, *statuses: str) -> None:
        await self.watch.until(
            f"{self.cell.id}: {node}.{visit} {' or '.join(statuses)}",
            lambda: self.watch.has(self.ulid, node, visit, *statuses),
        )

    async def _emit(self, *roles: str) -> None:
        if self.cell.what != "wait":
            return
        for role in roles:
            # Within one instance an event is taken by one wait.
            waits = 2 if role == "1" and self.cell.place == "nested" else 1
            for _ in range(waits):
                await self.system.call(self.system.almanac.emit, self.cell.event, {"role": role})

    async def _let_go(self) -> None:
        """Lets the handler or the child that plays role 2 go on."""
        self.handlers.gates[self.cell.id].set()
        if self.cell.what == "child":
            await self.system.call(self.system.almanac.emit, "kid.go", {"cell": self.cell.id})

    async def _command(self, command: Callable[[str], Any]) -> None:
        receipt = await self.system.call(command, self.ulid)
        applied = await self.system.call(self.system.almanac.wait_applied, receipt, PATIENCE)
        assert applied.status == "done", applied

    async def _news_came(self) -> None:
        """Waits until the event for role 2 was delivered, and the instance has taken note of it."""
        names = self.system.settings.tables
        await self._until_row(
            f"SELECT count(*) FROM {names.inbox} b JOIN {names.instances} i"
            f" ON i.id = b.instance_id JOIN {names.events} e ON e.id = b.event_id"
            " WHERE i.ulid = $1 AND e.payload ->> 'role' = '2' AND b.applied_at IS NOT NULL"
        )

    async def _kid_reported(self) -> None:
        """Waits until the end of every child was reported, and the instance has noted them."""
        names = self.system.settings.tables
        await self._until_row(
            f"SELECT count(*) FILTER (WHERE b.applied_at IS NOT NULL) = (SELECT count(*)"
            f" FROM {names.instances} c WHERE c.parent_instance_id = min(i.id))"
            f" FROM {names.inbox} b JOIN {names.instances} i ON i.id = b.instance_id"
            " WHERE i.ulid = $1 AND b.kind = 'child'"
        )

    async def _overdue(self) -> None:
        """Waits until all delays are over."""
        names = self.system.settings.tables
        await self._until_row(
            f"SELECT bool_and(w.due_at < clock_timestamp() - interval '0.3 s')"
            f" FROM {names.waits} w JOIN {names.instances} i ON i.id = w.instance_id"
            " WHERE i.ulid = $1"
        )

    async def _until_row(self, query: str) -> None:
        async def there() -> None:
            assert await self.watch.pool.fetchval(query, self.ulid), f"{self.cell.id}: {query}"

        await eventually_async(there, PATIENCE)


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


async def read(system: System, ulids: list[str] | None = None) -> dict[str, Recorded]:
    """All that the record says about instances, or about all of them."""
    names = system.settings.tables
    connection = await asyncpg.connect(system.settings.database_url)
    snapshot = connection.transaction(isolation="repeatable_read", readonly=True)
    await snapshot.start()
    try:
        chosen = "" if ulids is None else " WHERE i.ulid = ANY ($1)"
        arguments = [] if ulids is None else [ulids]
        instances = await connection.fetch(
            f"SELECT i.* FROM {names.instances} i{chosen} ORDER BY i.id", *arguments
        )
        loader = Loader(system.settings)
        found: dict[str, Recorded] = {}
        keyed: dict[Any, Recorded] = {}
        for row in instances:
            loaded = await loader.load(connection, row["ulid"])
            recorded = Recorded(
                dict(row), [], [], [], [], fold(loaded.entries, State(seq=loaded.since))
            )
            found[row["ulid"]] = keyed[row["id"]] = recorded
        for table, order in (
            ("step_runs", "id"),
            ("waits", "id"),
            ("journal", "seq"),
            ("inbox", "id"),
        ):
            for row in await connection.fetch(
                f"SELECT * FROM {getattr(names, table)} WHERE instance_id = ANY ($1)"
                f" ORDER BY {order}",
                list(keyed),
            ):
                part = "steps" if table == "step_runs" else table
                getattr(keyed[row["instance_id"]], part).append(_decoded(row))
    finally:
        await connection.close()
    return found


_JSON = frozenset({"data", "input", "output", "payload", "result"})


def _decoded(row: asyncpg.Record) -> Row:
    return {
        name: orjson.loads(value) if name in _JSON and isinstance(value, str) else value
        for name, value in row.items()
    }


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
