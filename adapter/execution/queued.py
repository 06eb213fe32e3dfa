"""A queued step: one attempt, run beside the turns by an activity of its own.

It claims the step run with a token of its own and a lease, runs the handler, and records how that
ended in its own append; everything else is left to the next turn, so the step that follows stays
scheduled. Only the record decides: who holds the token of a running step is the one whose result
is taken. A process that dies at any point leaves a lease that ends.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from adapter.execution.attending import SOON, Attendance, StepDelayed, heartbeat_of
from adapter.execution.cache import Folded
from adapter.execution.calls import Calls
from adapter.execution.context import Pulse
from adapter.execution.instance import Instance, Superseded
from adapter.execution.keeping import Keeper
from adapter.execution.offers import Offered
from adapter.execution.settling import settle
from adapter.interpreter import entries as kinds
from adapter.interpreter.events import Claimed, Finished, TakeOver
from adapter.interpreter.lanes import LOSSES
from adapter.records.pooling import NO_DATABASE
from adapter.records.writers import step_token
from adapter.settings import MIN_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.execution.deps import TurnDeps
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.events import Event
    from adapter.interpreter.state import Key, Step
    from adapter.records.connection import Connection

LOGGER = logging.getLogger("almanac.queued")

ELSEWHERE = 1.0
"""Seconds after which a step that this worker cannot take is offered again."""

ASIDE = 5.0
"""Seconds after which it is asked again whether a step that another process runs has ended: a run
of the driver that has not begun it hears of its end in no other way."""


async def run_step(
    deps: TurnDeps,
    ulid: str,
    step: str,
    *,
    doubt: asyncio.Event | None = None,
    stopping: asyncio.Event | None = None,
    alone: bool = False,
) -> None:
    """Runs one queued step to its end, if it is there to be run.

    Returns when there is nothing more to do for this step run: it has ended, by this or by another
    hand, or was handed back.

    Args:
        deps: The process's connections and handlers.
        ulid: The instance.
        step: The step run's id.
        doubt: Set when somebody has heard that the step is not wanted any more. The record is
            asked then; what others believe ends nothing.
        stopping: Set when the worker stops.
        alone: Whether nobody will set ``doubt``.

    Raises:
        StepDelayed: Another process runs it, or this one cannot.
        NotFound: No such instance.
        NewerJournal: A newer interpreter wrote to it; another worker must go on.
        asyncpg.PostgresError, OSError, TimeoutError: The database cannot be reached.
    """
    queued = _QueuedStep(
        deps, ulid, step, doubt or asyncio.Event(), stopping or asyncio.Event(), alone
    )
    try:
        await queued.run()
    finally:
        queued.close()


class _QueuedStep:
    def __init__(
        self,
        deps: TurnDeps,
        ulid: str,
        step: str,
        doubt: asyncio.Event,
        stopping: asyncio.Event,
        alone: bool,
    ) -> None:
        self.deps = deps
        self.alone = alone
        self.key: Key = int(step) if deps.settings.primary_key_type == "bigint" else step
        self.doubt = doubt
        self.stopping = stopping
        self.token = step_token(deps.new_token())
        self.instance = Instance(deps, ulid, self.token, _known(deps, ulid), activities=True)
        self.refused = False
        self.suspect = False

    def close(self) -> None:
        if self.suspect:
            self.deps.suspects.release()

    async def run(self) -> None:
        if self.stopping.is_set():
            raise StepDelayed("the worker is stopping", SOON)
        begun = await self._append(self._claim)
        if begun is None:
            return
        step = self.instance.state.steps[self.key]
        node = self.instance.graph.nodes[step.node]
        pulse = Pulse()
        lease = self._lease(node)
        keeper = Keeper(self.deps, self.key, self.token, lease, pulse, self.doubt, alone=self.alone)
        calls = Calls(self.deps, self.token, self.deps.step_runner)
        calls.begin(step, node, begun.row["call"], self.instance.loaded, pulse)
        try:
            async with keeper.keeping():
                event = await self._attendance(node, calls, keeper, pulse, lease).end()
                if event is not None:
                    await self._record(keeper, event)
        finally:
            calls.close()

    def _attendance(
        self, node: CompiledNode, calls: Calls, keeper: Keeper, pulse: Pulse, lease: float
    ) -> Attendance:
        return Attendance(
            self.key,
            self.token,
            node,
            calls,
            keeper,
            pulse,
            action=self.deps.registry.actions[_action_of(node)],
            lease=lease,
            worker=self.deps.settings.worker,
            stopping=self.stopping,
        )

    async def _append(self, attempt: Callable[[Connection], Any]) -> Any:
        """Loads, decides and appends, alone once another writer has come in between."""
        while True:
            async with self.deps.pool.acquire() as connection:
                try:
                    if not self.refused:
                        return await attempt(connection)
                    async with self.instance.locked(connection):
                        return await attempt(connection)
                except Superseded:
                    self.refused = True

    async def _claim(self, connection: Connection) -> Entry | None:
        """Begins the step; None when there is nothing to begin."""
        instance = self.instance
        await instance.load(connection)
        step = instance.state.steps.get(self.key)
        if step is None or step.queue is None:
            return None
        if step.status == "running":
            await self._take_over(connection, step)
            return None
        if instance.state.paused:
            return None
        now = instance.now()
        if step.due_at is not None and step.due_at > now:
            left = (step.due_at - now).total_seconds()
            raise StepDelayed(f"step {self.key} is not due yet", left)
        node = instance.graph.nodes[step.node]
        self._check(step, node)
        entries, _ = await instance.advance(
            connection, [Claimed(self.key, self._lease(node))], begin=False
        )
        for entry in entries:
            if entry.kind == kinds.STEP_STARTED and entry.step == self.key:
                return entry
        return None

    def _check(self, step: Step, node: CompiledNode) -> None:
        deps, action = self.deps, _action_of(node)
        if action not in deps.registry:
            deps.registry.miss(action)
            raise StepDelayed(f"this worker has no handler for action {action!r}", ELSEWHERE)
        if step.losses >= LOSSES and not self.suspect:
            self.suspect = deps.suspects.acquire(blocking=False)
            if not self.suspect:
                message = f"{step.losses} workers died in step {self.key}; it runs beside no such"
                raise StepDelayed(f"{message} step", ELSEWHERE)

    async def _take_over(self, connection: Connection, step: Step) -> None:
        """Opens the next attempt of a step whose lease is over.

        Raises:
            StepDelayed: It is not over.
        """
        left = await self.deps.leases.rest(connection, self.key)
        if left > 0:
            message = f"step {self.key} is being run"
            raise StepDelayed(message, min(left + SOON, ASIDE))
        workers = frozenset({step.worker} if step.worker else ())
        gone = await self.deps.workers.gone(connection, workers)
        event = TakeOver(gone, frozenset({self.key}), inline=False)
        await self.instance.advance(connection, [event], begin=False)

    async def _record(self, keeper: Keeper, event: Event) -> None:
        """Appends how the step ended; nothing if it is not its own any more."""
        if isinstance(event, Offered):
            refused = await self._commit(keeper, event)
            if refused is None:
                return
            event = refused
        pause = SOON
        while True:
            try:
                await keeper.tell()
                await self._append(lambda connection: self._end(connection, event))
            except NO_DATABASE as error:
                LOGGER.warning("result of step %s: %s: %s", self.key, type(error).__name__, error)
                if self.stopping.is_set():
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
                continue
            return

    async def _commit(self, keeper: Keeper, offered: Offered) -> Finished | None:
        """Ends the step in its handler's transaction; gives the failure if that was refused."""
        with suppress(*NO_DATABASE):
            await keeper.tell()
        # Not alone, as other ends are: the handler's connection is another one than this.
        async with self.deps.pool.acquire() as connection:
            await self.instance.load(connection)
            try:
                return (await settle(self.instance, connection, offered)).failure
            except Superseded:
                LOGGER.info("step %s was taken over; its handler is rolled back", self.key)
                return None

    async def _end(self, connection: Connection, event: Event) -> None:
        await self.instance.load(connection)
        step = self.instance.state.steps.get(self.key)
        if step is None or step.status != "running" or step.token != self.token:
            LOGGER.info("step %s was taken over; what its handler did is not recorded", self.key)
            return
        await self.instance.advance(connection, [event], begin=False)

    def _lease(self, node: CompiledNode) -> float:
        heartbeat = heartbeat_of(node, self.deps.registry.actions[_action_of(node)])
        lease = self.deps.settings.worker.lease if heartbeat is None else 2 * heartbeat
        return max(lease, MIN_LEASE).total_seconds()


def _action_of(node: CompiledNode) -> str:
    config: Any = node.config
    return str(config.action)


def _known(deps: TurnDeps, ulid: str) -> Folded:
    """What the process knows of an instance; the turns' own copy stays theirs."""
    folded = deps.cache.take(ulid)
    if folded.state.seq:
        deps.cache.put(ulid, folded)
    return Folded(
        folded.state, folded.writer, dict(folded.outputs), snapshot_seq=folded.snapshot_seq
    )


__all__ = ["StepDelayed", "run_step"]
