"""The turn: brings one instance as far as it goes now, one commit per step.

Load once, apply what came in, take over what a dead turn left, then decide, append and run
handlers until nothing is left to do, until the stretch is over, or until another turn's entry
refuses this one. A turn may be repeated, killed or run twice at any point: everything it does
passes through the append, which takes only what was decided on the latest entry.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from adapter.execution.cache import Folded
from adapter.execution.calls import Calls
from adapter.execution.held import Held
from adapter.execution.looking import Looking
from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import fold
from adapter.interpreter.decide import Decision, decide
from adapter.interpreter.entries import Entry
from adapter.interpreter.env import Bounds, Env
from adapter.interpreter.events import Arrived, Event, Finished, TakeOver, Tick
from adapter.interpreter.projection import project
from adapter.interpreter.snapshots import as_json
from adapter.interpreter.state import Key, State
from adapter.records.keys import KeysSpent

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from adapter.execution.deps import TurnDeps
    from adapter.graph.compiled import Graph
    from adapter.interpreter.needs import Needs
    from adapter.records.load import Loaded
    from adapter.settings import Settings

SNAPSHOT_EVERY = 1_000
"""Entries between two snapshots in the journal."""

KEYS_AHEAD = 100
"""Ids that a decision usually can draw without asking for more."""

SOON = 0.02
"""Seconds a turn waits for its handlers before it lends its connection to other turns."""

MIN_DELAY = 0.05


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a driver has to know after a turn.

    Attributes:
        status: The instance's status.
        node: The main line's node.
        ended: Nothing is left to do, ever.
        more: Something is left to do now: take another turn at once.
        delay: Seconds to the next thing that falls due; None when only an event can go on.
        progressed: Whether the turn wrote anything.
        stuck: Work is due that this turn could not do; another one at once would not help.
    """

    status: str
    node: str | None
    ended: bool
    more: bool
    delay: float | None
    progressed: bool
    stuck: bool = False


class Superseded(Exception):
    """Another turn's entry refused this one."""


async def take_turn(deps: TurnDeps, ulid: str, stopping: asyncio.Event | None = None) -> TurnResult:
    """Takes one turn of an instance.

    Args:
        deps: The process's connections, handlers and caches.
        ulid: The instance.
        stopping: When set, no further step is begun and the turn returns at the next boundary.

    Raises:
        NotFound: No such instance.
        NewerJournal: A newer interpreter wrote to it; another worker must go on.
        asyncpg.PostgresError, OSError, TimeoutError: The database cannot be reached; the turn can
            be repeated.
    """
    async with Held(deps.pool) as held:
        turn = _Turn(deps, ulid, held, stopping)
        try:
            return await turn.run()
        finally:
            turn.calls.close()


class _Turn:
    def __init__(
        self,
        deps: TurnDeps,
        ulid: str,
        held: Held,
        stopping: asyncio.Event | None,
    ) -> None:
        self.deps = deps
        self.ulid = ulid
        self.held = held
        self.stopping = stopping
        self.writer = deps.new_token()
        self.began = time.monotonic()
        self.folded: Folded = deps.cache.take(ulid)
        self.calls = Calls(deps, self.writer)
        self.progressed = False
        self.inputs: dict[Key, Any] = {}
        self.payloads: dict[Key, Any] = {}
        self.loaded: Loaded
        self.graph: Graph
        self.bounds: Bounds
        self.clock: tuple[datetime, float]

    @property
    def state(self) -> State:
        return self.folded.state

    async def run(self) -> TurnResult:
        inbox = await self._load()
        events: list[Event] = [*inbox, TakeOver(await self._gone()), Tick()]
        await self._look()
        try:
            await self._go_on(events)
        except Superseded:
            return TurnResult(
                self.state.status, self.state.current, False, True, MIN_DELAY, self.progressed
            )
        self.deps.cache.put(self.ulid, self.folded)
        return self._result()

    async def _go_on(self, events: list[Event]) -> None:
        while True:
            wrote, more = await self._advance(events)
            events = []
            if more:
                events += await self._load(again=True)
            found = await self._look() or (not events and await self._look_further())
            if not events and not found and self.calls:
                events += await self._results()
            if not events and not found and not (wrote and self._may_go_on()):
                return
            if self._has_pending():
                events.append(Tick())

    async def _results(self) -> list[Finished]:
        """Waits for handlers; one that takes its time does not keep a connection from others."""
        results = await self.calls.results(SOON)
        if not results:
            await self.held.release()
            while not results:
                results = await self.calls.results()
            await self.held.acquire()
        return results

    def _has_pending(self) -> bool:
        """Whether a tick could lead to anything: a wait or a step that nobody runs is open."""
        return bool(self.state.waits) or any(
            step.status != "running" for step in self.state.steps.values()
        )

    def _may_go_on(self) -> bool:
        """Whether a scheduled step is left that this turn may still begin."""
        if self.state.ended or self.state.paused or not self._may_begin():
            return False
        now = self._now()
        return any(
            (
                step.status == "scheduled"
                or (step.status == "retrying" and step.due_at is not None and step.due_at <= now)
            )
            and self._can_run(step.node)
            for step in self.state.steps.values()
        )

    def _can_run(self, node: str) -> bool:
        action = getattr(self.graph.nodes[node].config, "action", None)
        return action is None or action in self.deps.registry

    def _may_begin(self) -> bool:
        if self.stopping is not None and self.stopping.is_set():
            return False
        # The first append of a turn may always begin something: when reading alone takes longer
        # than a stretch, instances still go on, step by step.
        stretch = self.deps.settings.worker.stretch.total_seconds()
        return not self.progressed or time.monotonic() - self.began < stretch

    async def _load(self, *, again: bool = False) -> list[Arrived]:
        loaded = await self.deps.loader.load(
            self.held.connection, self.ulid, self.state.seq, self.folded.writer
        )
        if again and loaded.entries:
            raise Superseded
        if loaded.since != self.state.seq:
            self.folded = Folded(State(seq=loaded.since))
        for seq, entry in enumerate(loaded.entries, start=loaded.since + 1):
            if entry.kind == kinds.SNAPSHOT:
                self.folded.snapshot_seq = seq
        self.folded.state = fold(loaded.entries, self.folded.state)
        self.folded.writer = loaded.writer
        if any(arrived.kind == "event" for arrived in loaded.inbox):
            self.folded.looked.clear()
        self.loaded = loaded
        self.clock = (loaded.now, time.monotonic())
        self.graph = await self.deps.graphs.get(self.held.connection, loaded.version)
        self.bounds = bounds_of(self.deps.settings, self.graph)
        return loaded.inbox

    def _now(self) -> datetime:
        at, since = self.clock
        return at + timedelta(seconds=time.monotonic() - since)

    async def _gone(self) -> frozenset[str]:
        """Workers of open foreign attempts whose heartbeat has a gap."""
        workers = {
            step.worker
            for step in self.state.steps.values()
            if step.status == "running" and step.worker is not None
        }
        if not workers:
            return frozenset()
        return await self.deps.workers.gone(self.held.connection, workers)

    async def _look(self) -> bool:
        """Looks for stored events for waits that are new; True when something was found."""
        return await self._looking().fresh(self.held.connection)

    async def _look_further(self) -> bool:
        """Looks beyond the events that open waits have turned down."""
        return await self._looking().further(self.held.connection)

    def _looking(self) -> Looking:
        return Looking(self.deps.looker, self.folded, self.loaded.owner_scope)

    async def _advance(self, events: Sequence[Event]) -> tuple[bool, bool]:
        """Decides on the events, appends, begins handlers.

        Returns:
            Whether anything was written, and whether unapplied inbox rows are left.
        """
        before = self.state
        state = before
        entries: list[Entry] = []
        env = await self._env(KEYS_AHEAD)
        for event in events:
            decision, env = await self._decide(state, event, env)
            entries += decision.entries
            state = decision.state
            self._keep_outputs(decision.entries)
        if not entries:
            return False, False
        if state.seq - self.folded.snapshot_seq >= SNAPSHOT_EVERY:
            snapshot = Entry(kinds.SNAPSHOT, data=as_json(state))
            entries.append(snapshot)
            state = fold([snapshot], state)
            self.folded.snapshot_seq = state.seq
        changes = project(before, entries, state, ulid=self.ulid, writer=self.writer)
        appended = await self.deps.appender.append(
            self.held.connection,
            instance=self.loaded.id,
            expected_seq=before.seq,
            entries=entries,
            changes=changes,
            writer=self.writer,
        )
        if appended is None:
            raise Superseded
        self.progressed = True
        self.folded.state, self.folded.writer = state, self.writer
        self.clock = (appended.at, time.monotonic())
        self._begin_handlers(entries)
        return True, appended.more

    async def _decide(self, state: State, event: Event, env: Env) -> tuple[Decision, Env]:
        """Asks the decider, and fetches what it lacks until it can answer."""
        count = KEYS_AHEAD
        while True:
            try:
                decision = decide(self.graph, state, event, env)
            except KeysSpent:
                count *= 2
                env = await self._env(count, state.newest_id)
                continue
            if decision.complete:
                return decision, env
            await self._fetch(decision.needs)
            env = await self._env(count, state.newest_id)

    async def _env(self, count: int, newest: Key | None = None) -> Env:
        """What the decider may know, with at least ``count`` ids to draw from."""
        newest = self.state.newest_id if newest is None else newest
        step_id = await self.deps.step_keys.reserve(self.held.connection, count, after=newest)
        wait_id = await self.deps.wait_keys.reserve(self.held.connection, count)
        return Env(
            facts=self.loaded.facts,
            now=self._now(),
            writer=self.writer,
            worker=self.deps.worker,
            step_id=step_id,
            wait_id=wait_id,
            begin=self._may_begin(),
            bounds=self.bounds,
            policies=self.deps.policies,
            outputs=self.folded.outputs,
            inputs=self.inputs,
            payloads=self.payloads,
            stored=self.folded.stored_for,
            random=random.random(),
        )

    async def _fetch(self, needs: Needs) -> None:
        loader, connection = self.deps.loader, self.held.connection
        if needs.outputs:
            self.folded.outputs |= await loader.outputs(connection, needs.outputs)
        if needs.inputs:
            self.inputs |= await loader.inputs(connection, needs.inputs)
        if needs.payloads:
            self.payloads |= await loader.payloads(connection, needs.payloads)

    def _keep_outputs(self, entries: Sequence[Entry]) -> None:
        """Has outputs at hand for the decisions that follow, which come before they are written."""
        for entry in entries:
            if entry.step is not None and "output" in entry.row:
                self.folded.outputs[entry.step] = entry.row["output"]
            if entry.step is not None and entry.kind == kinds.SCOPE_OPENED:
                self.inputs[entry.step] = entry.data.get("config")

    def _begin_handlers(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.step is None:
                continue
            if entry.kind == kinds.STEP_STARTED and entry.step in self.state.steps:
                step = self.state.steps[entry.step]
                node = self.graph.nodes[step.node]
                self.calls.begin(step, node, entry.row["call"], self.loaded)

    def _result(self) -> TurnResult:
        state = self.state
        now = self._now()
        scheduled = [s for s in state.steps.values() if s.status == "scheduled"]
        runnable = any(self._can_run(step.node) for step in scheduled)
        dues = [wait.due_at for wait in state.waits.values() if wait.due_at is not None]
        dues += [step.due_at for step in state.steps.values() if step.due_at is not None]
        if state.paused:
            return TurnResult(state.status, state.current, False, False, None, self.progressed)
        overdue = bool(dues) and min(dues) <= now
        delay = max((min(dues) - now).total_seconds(), MIN_DELAY) if dues else None
        blocked = bool(scheduled) and not runnable
        return TurnResult(
            status=state.status,
            node=state.current,
            ended=state.ended,
            more=runnable and not state.ended,
            delay=None if state.ended else delay,
            progressed=self.progressed,
            stuck=not state.ended and (blocked or (not self.progressed and (overdue or runnable))),
        )


def bounds_of(settings: Settings, graph: Graph) -> Bounds:
    """The limits of an instance: the settings', lowered by its graph."""
    limits = settings.limits
    own = graph.settings.limits.max_steps
    return Bounds(
        max_steps=min(own or limits.max_steps, limits.max_steps),
        max_state_bytes=limits.max_state_bytes,
        max_output_bytes=limits.max_output_bytes,
        input_bytes=settings.steps_input.max_bytes,
    )
