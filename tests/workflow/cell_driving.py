"""One cell, driven by what a host can do, and watched through the rows."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from adapter.errors import StepError
from tests.eventually import eventually_async
from tests.workflow.recorded import read

if TYPE_CHECKING:
    from collections.abc import Callable

    import asyncpg

    from adapter.execution.context import ActionContext
    from tests.workflow.cells import Cell
    from tests.workflow.recorded import Recorded
    from tests.workflow.system import System

LOOK = 0.1
PATIENCE = 30.0


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
