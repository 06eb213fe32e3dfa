"""The turn: brings one instance as far as it goes now, one commit per step.

Load once, apply what came in, take over what a dead turn left, then decide, append and run
handlers until nothing is left to do, until the stretch is over, or until another turn's entry
refuses this one. A turn may be repeated, killed or run twice at any point: everything it does
passes through the append, which takes only what was decided on the latest entry.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from adapter.execution.calls import Calls
from adapter.execution.dues import until_due
from adapter.execution.endings import Endings
from adapter.execution.handing_out import HandOuts
from adapter.execution.held import Held
from adapter.execution.instance import Instance, Superseded
from adapter.execution.looking import Looking
from adapter.execution.offers import Offered
from adapter.execution.settling import settle
from adapter.execution.turned import Queued, TurnResult
from adapter.interpreter import entries as kinds
from adapter.interpreter.events import Arrived, Event, TakeOver, Tick

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Sequence

    from adapter.execution.deps import TurnDeps
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.state import State, Step

SOON = 0.02
"""Seconds a turn waits for its handlers before it lends its connection to other turns."""

LOOK_AGAIN = 0.5
"""Seconds between two looks for commands while handlers take their time."""

MIN_DELAY = 0.05


async def take_turn(
    deps: TurnDeps,
    ulid: str,
    stopping: asyncio.Event | None = None,
    *,
    activities: bool = False,
    known: Collection[str] = frozenset(),
) -> TurnResult:
    """Takes one turn of an instance.

    Args:
        deps: The process's connections, handlers and caches.
        ulid: The instance.
        stopping: When set, no further step is begun and the turn returns at the next boundary.
        activities: Whether the caller sees to it that queued steps are run; else all are inline.
        known: Queued steps that it sees to already. Others have to reach it soon: while there are
            any that could not be handed out, the turn begins no handler that it would have
            to wait for.

    Raises:
        NotFound: No such instance.
        NewerJournal: A newer interpreter wrote to it; another worker must go on.
        asyncpg.PostgresError, OSError, TimeoutError: The database cannot be reached; the turn can
            be repeated.
    """
    async with Held(deps.pool) as held:
        turn = _Turn(deps, ulid, held, stopping, activities=activities, known=known)
        try:
            return await turn.run()
        finally:
            turn.calls.close()
            turn.hand_outs.close()


class _Turn:
    def __init__(
        self,
        deps: TurnDeps,
        ulid: str,
        held: Held,
        stopping: asyncio.Event | None,
        *,
        activities: bool,
        known: Collection[str],
    ) -> None:
        self.deps = deps
        self.held = held
        self.stopping = stopping
        self.known = set(known)
        self.hand_outs = HandOuts(deps.hand_out, ulid, self.known)
        self.began = time.monotonic()
        writer = deps.new_token()
        self.instance = Instance(deps, ulid, writer, deps.cache.take(ulid), activities=activities)
        self.calls = Calls(deps, writer)
        self.progressed = False

    @property
    def state(self) -> State:
        return self.instance.state

    async def run(self) -> TurnResult:
        inbox = await self.instance.load(self.held.connection)
        events: list[Event] = [*inbox, await self._take_over(), Tick()]
        await self._look()
        try:
            await self._go_on(events)
        except Superseded:
            return TurnResult(
                self.state.status,
                self.state.current,
                False,
                True,
                MIN_DELAY,
                self.progressed,
                queued=None,
            )
        self.deps.cache.put(self.instance.ulid, self.instance.folded)
        return self._result()

    async def _go_on(self, events: list[Event]) -> None:
        while True:
            wrote, more = await self._advance(events)
            events = []
            if more:
                events += await self._load_again()
            found = await self._look() or (not events and await self._look_further())
            if not events and not found and self.calls:
                events += await self._results()
            if not events and not found and not (wrote and self._may_go_on()):
                return
            if self._has_pending() or self._commands(events):
                events.append(Tick())

    async def _load_again(self) -> list[Event]:
        """What came in meanwhile: commands, and what queued steps have reported."""
        seq = self.state.seq
        inbox = await self.instance.load(self.held.connection, alone=True)
        return [*inbox, Tick()] if self.state.seq != seq and not inbox else [*inbox]

    async def _results(self) -> list[Event]:
        """Waits for handlers; one that takes its time keeps no connection, command or timer."""
        events: list[Event] = [*await self.calls.results(SOON)]
        while not events and self.calls:
            await self.held.release()
            if self._has_news() and not self._is_stopping():
                self.hand_outs.begin(self._to_queue())
            events += await self.calls.results(self._patience())
            await self.held.acquire()
            if not events:
                events += await self._load_again()
            if not events and self._until_due() == 0:
                events.append(Tick())
        offered = [event for event in events if isinstance(event, Offered)]
        if offered:
            others = [event for event in events if not isinstance(event, Offered)]
            return [*await self._settle(offered), *others, Tick()]
        return events

    def _until_due(self) -> float | None:
        return until_due(self.state, self.instance.now())

    def _patience(self) -> float:
        """Seconds to wait for handlers before something else has to be looked at."""
        left = self._until_due()
        return LOOK_AGAIN if left is None else min(max(left, SOON), LOOK_AGAIN)

    async def _settle(self, offered: Sequence[Offered]) -> list[Event]:
        """Ends transactional steps, one commit each; what is left to decide on then."""
        failures: list[Event] = []
        more = False
        for one in offered:
            settled = await settle(self.instance, self.held.connection, one, self._may_begin)
            more = more or settled.more
            if settled.failure is not None:
                failures.append(settled.failure)
            if settled.entries:
                self._wrote(settled.entries)
        return [*await self._load_again(), *failures] if more else failures

    def _wrote(self, entries: Sequence[Entry]) -> None:
        self.progressed = True
        self._begin_handlers(entries)
        self.calls.keep_only(self.state.steps)

    @staticmethod
    def _commands(events: Sequence[Event]) -> bool:
        return any(isinstance(event, Arrived) for event in events)

    def _has_pending(self) -> bool:
        """Whether a tick could lead to anything: a wait or a step that nobody runs is open."""
        return bool(self.state.waits) or any(
            step.status != "running" for step in self.state.steps.values()
        )

    def _may_go_on(self) -> bool:
        """Whether a scheduled step is left that this turn may still begin."""
        if self.state.ended or self.state.paused or not self._may_begin():
            return False
        now = self.instance.now()
        return any(
            (
                step.status == "scheduled"
                or (step.status == "retrying" and step.due_at is not None and step.due_at <= now)
            )
            and self._can_run(step)
            for step in self.state.steps.values()
        )

    def _can_run(self, step: Step) -> bool:
        if step.queue is not None:
            return False
        config = self.instance.graph.nodes[step.node].config
        action = getattr(config, "action", None)
        if action is None or action in self.deps.registry:
            return True
        self.deps.registry.miss(action)
        return False

    def _may_begin(self) -> bool:
        if self._is_stopping() or self._has_news():
            return False
        # The first append of a turn may always begin something: when reading alone takes longer
        # than a stretch, instances still go on, step by step.
        stretch = self.deps.settings.worker.stretch.total_seconds()
        return not self.progressed or time.monotonic() - self.began < stretch

    def _is_stopping(self) -> bool:
        return self.stopping is not None and self.stopping.is_set()

    def _has_news(self) -> bool:
        """Whether activities are to run steps of which the caller does not know yet."""
        return self.instance.activities and any(
            queued.step not in self.known for queued in self._to_queue()
        )

    def _to_queue(self) -> list[Queued]:
        """The steps that activities run, or may run now."""
        state = self.state
        if state.ended:
            return []
        now = self.instance.now()
        return [
            Queued(str(step.id), step.queue)
            for step in state.steps.values()
            if step.queue is not None
            and (
                step.status == "running"
                or (not state.paused and (step.due_at is None or step.due_at <= now))
            )
        ]

    async def _take_over(self) -> TakeOver:
        """What is known of those who run what others have begun."""
        running = [step for step in self.state.steps.values() if step.status == "running"]
        workers = {step.worker for step in running if step.worker}
        leased = {step.id for step in running if step.queue is not None}
        gone: frozenset[str] = frozenset()
        if workers:
            gone = await self.deps.workers.gone(self.held.connection, workers)
        expired = frozenset(leased)
        if leased:
            expired = await self.deps.leases.expired(self.held.connection, frozenset(leased))
        return TakeOver(gone, expired)

    async def _look(self) -> bool:
        """Looks for what came before its wait: events, and ends of other instances.

        Returns:
            Whether something was found.
        """
        instance, deps = self.instance, self.deps
        if not self.state.waits:
            instance.folded.heard.clear()
            return False
        endings = Endings(deps.awaited, instance.folded, instance.loaded.owner_scope)
        ended = await endings.fresh(self.held.connection)
        return await self._looking().fresh(self.held.connection) or ended

    async def _look_further(self) -> bool:
        """Looks beyond the events that open waits have turned down."""
        return bool(self.state.waits) and await self._looking().further(self.held.connection)

    def _looking(self) -> Looking:
        instance = self.instance
        return Looking(self.deps.looker, instance.folded, instance.loaded.owner_scope)

    async def _advance(self, events: Sequence[Event]) -> tuple[bool, bool]:
        """Decides on the events, appends, begins handlers.

        Commands that came together are all applied before anything begins.

        Returns:
            Whether anything was written, and whether unapplied inbox rows are left.
        """
        together = sum(isinstance(event, Arrived) for event in events) > 1
        begin = self._may_begin() and not together
        entries, more = await self._append(events, begin=begin)
        if not entries:
            return False, False
        self._wrote(entries)
        return True, more

    async def _append(
        self, events: Sequence[Event], *, begin: bool
    ) -> tuple[Sequence[Entry], bool]:
        """Appends what follows from the events; again when a queued step came in between.

        Raises:
            Superseded: Another turn came in between.
        """
        instance, connection = self.instance, self.held.connection
        try:
            return await instance.advance(connection, events, begin=begin)
        except Superseded:
            async with instance.locked(connection):
                inbox = await instance.load(connection, alone=True)
                # The rows that came with the events are among these, unapplied as they are.
                events = [*inbox, *(e for e in events if not isinstance(e, Arrived)), Tick()]
                together = sum(isinstance(event, Arrived) for event in events) > 1
                begin = self._may_begin() and not together
                return await instance.advance(connection, events, begin=begin)

    def _begin_handlers(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.step is None:
                continue
            if entry.kind == kinds.STEP_STARTED and entry.step in self.state.steps:
                step = self.state.steps[entry.step]
                node = self.instance.graph.nodes[step.node]
                self.calls.begin(step, node, entry.row["call"], self.instance.loaded)

    def _result(self) -> TurnResult:
        state = self.state
        if state.paused or state.ended:
            return TurnResult(
                state.status,
                state.current,
                state.ended,
                False,
                None,
                self.progressed,
                queued=tuple(self._to_queue()),
            )
        now = self.instance.now()
        steps = state.steps.values()
        scheduled = [s for s in steps if s.status == "scheduled" and s.queue is None]
        runnable = any(self._can_run(step) for step in scheduled)
        left = until_due(state, now)
        overdue = left == 0
        delay = None if left is None else max(left, MIN_DELAY)
        blocked = bool(scheduled) and not runnable
        return TurnResult(
            status=state.status,
            node=state.current,
            ended=False,
            more=runnable,
            delay=delay,
            progressed=self.progressed,
            stuck=blocked
            or (not self.progressed and (overdue or runnable) and not self._has_news()),
            queued=tuple(self._to_queue()),
        )
