"""One instance as one writer sees it: loaded, decided on, appended to.

Whoever moves an instance does it through here: a turn, the activity of a queued step, the end of a
transactional handler. Each has a token of its own, and the append takes only what was decided on
the latest entry.
"""

from __future__ import annotations

import random
import time
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from adapter.execution.cache import Folded
from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import fold
from adapter.interpreter.children import Ended
from adapter.interpreter.decide import Decision, decide
from adapter.interpreter.entries import Entry
from adapter.interpreter.env import Bounds, Env
from adapter.interpreter.projection import project
from adapter.interpreter.snapshots import as_json
from adapter.interpreter.state import Key, State
from adapter.records.keys import KeysSpent, new_ulid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from adapter.execution.deps import TurnDeps
    from adapter.graph.compiled import Graph
    from adapter.interpreter.children import Definition
    from adapter.interpreter.events import Arrived, Event
    from adapter.interpreter.needs import Needs
    from adapter.records.connection import Appending, Connection
    from adapter.records.keys import Draw
    from adapter.records.load import Loaded
    from adapter.settings import Settings

SNAPSHOT_EVERY = 1_000
"""Entries between two snapshots in the journal."""

KEYS_AHEAD = 100
"""Ids that a decision usually can draw without asking for more."""


class Superseded(Exception):
    """Another writer's entry refused this one."""


def _mixes_lanes(entries: Sequence[Entry]) -> bool:
    """Whether handlers are begun beside steps that activities are to run."""
    return any(
        entry.kind == kinds.STEP_STARTED and "lease" not in entry.data for entry in entries
    ) and any(
        entry.kind == kinds.STEP_SCHEDULED
        and entry.data.get("queue") is not None
        and "due_at" not in entry.data
        for entry in entries
    )


class Instance:
    """What one writer knows of an instance, and what it may add to it.

    Args:
        deps: The process's connections, handlers and caches.
        ulid: The instance.
        writer: The token of whoever writes: it stands in the journal beside each entry.
        folded: What the process knows already.
        activities: Whether activities run queued steps.
    """

    def __init__(
        self, deps: TurnDeps, ulid: str, writer: str, folded: Folded, *, activities: bool = False
    ) -> None:
        self.deps = deps
        self.ulid = ulid
        self.writer = writer
        self.folded = folded
        self.activities = activities
        self.inputs: dict[Key, Any] = {}
        self.payloads: dict[Key, Any] = {}
        self.definitions: dict[str, Definition | None] = {}
        self.statuses: dict[str, str] = {}
        self.loaded: Loaded
        self.graph: Graph
        self.bounds: Bounds
        self._clock: tuple[datetime, float]
        self._draws: tuple[Draw, Draw, Draw] | None = None

    @property
    def state(self) -> State:
        """Where the instance stands, as far as this writer knows."""
        return self.folded.state

    def now(self) -> datetime:
        """The database's clock, as it went on since it was last read."""
        at, since = self._clock
        return at + timedelta(seconds=time.monotonic() - since)

    async def load(self, connection: Connection, *, alone: bool = False) -> list[Arrived]:
        """Brings the state up to date.

        Args:
            connection: Outside a transaction.
            alone: Whether entries of other turns end the work.

        Returns:
            The inbox rows that are to be applied.

        Raises:
            Superseded: Another turn has added something.
        """
        loaded = await self.deps.loader.load(
            connection, self.ulid, self.state.seq, self.folded.writer
        )
        if alone and loaded.entries and loaded.others(self.writer):
            raise Superseded
        if loaded.since != self.state.seq:
            self.folded = Folded(State(seq=loaded.since))
        if loaded.entries:
            # Ids of others are among them, which later ones have to exceed.
            self._draws = None
        for seq, entry in enumerate(loaded.entries, start=loaded.since + 1):
            if entry.kind == kinds.SNAPSHOT:
                self.folded.snapshot_seq = seq
        self.folded.state = fold(loaded.entries, self.folded.state)
        self.folded.writer = loaded.writer
        self._hear(loaded, alone=alone)
        self.loaded = loaded
        self._clock = (loaded.now, time.monotonic())
        self.graph = await self.deps.graphs.get(connection, loaded.version)
        self.bounds = bounds_of(self.deps.settings, self.graph)
        self._reconsider(loaded.entries)
        return loaded.inbox

    def _hear(self, loaded: Loaded, *, alone: bool) -> None:
        """Notes of what the instance is told: of events, and of instances that have ended.

        What another process has taken note of counts as well: it may have died before it looked,
        or looked in a pause. A poke without a word is a reason to look at all instances.
        """
        noted = [entry.data for entry in loaded.entries if entry.kind == kinds.INBOX_APPLIED]
        told = [arrived.event for arrived in loaded.inbox if arrived.event is not None]
        told += [data["event"] for data in noted if "event" in data]
        if told:
            self.folded.told_of(told)
        for arrived in loaded.inbox:
            if arrived.kind == "child" and isinstance(arrived.payload, dict):
                self.folded.heard.add(str(arrived.payload.get("ulid")))
        if (not loaded.inbox and not alone) or any(data["kind"] == "child" for data in noted):
            self.folded.asked.clear()

    @asynccontextmanager
    async def locked(self, connection: Connection) -> AsyncIterator[None]:
        """A short transaction in which nobody else can append: for a writer that was refused.

        Load, decide and append in it. Writers that each try again by themselves refuse each other
        nine times out of ten when there are many.
        """
        table = self.deps.settings.tables.instances
        async with connection.transaction():
            await connection.execute(
                f"SELECT 1 FROM {table} WHERE ulid = $1 FOR NO KEY UPDATE", self.ulid
            )
            yield

    async def advance(
        self,
        connection: Connection,
        events: Sequence[Event],
        *,
        begin: bool,
        through: Appending | None = None,
    ) -> tuple[Sequence[Entry], bool]:
        """Decides on events and appends what follows from them.

        Args:
            connection: Where the append is its own commit, or the last statement before one.
            events: What has happened.
            begin: Whether handlers may be begun.
            through: A handler's transaction that the append goes into instead.

        Returns:
            The entries appended, and whether unapplied inbox rows are left.

        Raises:
            Superseded: Another writer's entry came first.
        """
        before = self.state
        entries, state = await self._decide_all(connection, events, begin=begin)
        if begin and self.activities and _mixes_lanes(entries):
            # Handlers of this turn would keep the queued steps from leaving it.
            entries, state = await self._decide_all(connection, events, begin=False)
        if not entries:
            return (), False
        if state.seq - self.folded.snapshot_seq >= SNAPSHOT_EVERY:
            snapshot = Entry(kinds.SNAPSHOT, data=as_json(state))
            entries.append(snapshot)
            state = fold([snapshot], state)
            self.folded.snapshot_seq = state.seq
        changes = project(before, entries, state, ulid=self.ulid, writer=self.writer)
        appended = await self.deps.appender.append(
            through or connection,
            instance=self.loaded.id,
            expected_seq=before.seq,
            entries=entries,
            changes=changes,
            writer=self.writer,
        )
        if appended is None:
            raise Superseded
        self.folded.state, self.folded.writer = state, self.writer
        self.folded.let_go(self.bounds.max_output_bytes)
        self._reconsider(entries)
        self._clock = (appended.at, time.monotonic())
        if appended.told:
            self.deps.nudge()
        return entries, appended.more

    async def _decide_all(
        self, connection: Connection, events: Sequence[Event], *, begin: bool
    ) -> tuple[list[Entry], State]:
        state = self.state
        entries: list[Entry] = []
        # What is published may change from one append to the next.
        self.definitions = {}
        self.statuses = {}
        env = await self._env(connection, KEYS_AHEAD, begin=begin)
        for event in events:
            decision, env = await self._decide(connection, state, event, env)
            entries += decision.entries
            state = decision.state
            self._keep(decision.entries)
        return entries, state

    async def _decide(
        self, connection: Connection, state: State, event: Event, env: Env
    ) -> tuple[Decision, Env]:
        """Asks the decider, and fetches what it lacks until it can answer."""
        count = KEYS_AHEAD
        while True:
            try:
                decision = decide(self.graph, state, event, env)
            except KeysSpent:
                count *= 2
                env = await self._env(connection, count, state.newest_id, begin=env.begin)
                continue
            if decision.complete:
                return decision, env
            await self._fetch(connection, decision.needs)
            env = await self._env(connection, count, state.newest_id, begin=env.begin)

    async def _env(
        self, connection: Connection, count: int, newest: Key | None = None, *, begin: bool
    ) -> Env:
        """What the decider may know, with at least ``count`` ids to draw from."""
        draws = self._draws
        if draws is None or count > KEYS_AHEAD:
            newest = self.state.newest_id if newest is None else newest
            deps = self.deps
            draws = self._draws = (
                await deps.step_keys.reserve(connection, count, after=newest),
                await deps.wait_keys.reserve(connection, count),
                # Few decisions start instances: those that do ask for more ids.
                await deps.child_keys.reserve(connection, 0 if count == KEYS_AHEAD else count),
            )
        step_id, wait_id, child_id = draws
        return Env(
            facts=self.loaded.facts,
            now=self.now(),
            writer=self.writer,
            worker=self.deps.worker,
            step_id=step_id,
            wait_id=wait_id,
            begin=begin,
            activities=self.activities,
            bounds=self.bounds,
            policies=self.deps.policies,
            outputs=self.folded.outputs,
            inputs=self.inputs,
            payloads=self.payloads,
            stored=self.folded.stored_for,
            random=random.random(),
            child_id=child_id,
            ulid=new_ulid,
            definitions=self.definitions,
            ended=self.folded.ended,
            statuses=self.statuses,
        )

    async def _fetch(self, connection: Connection, needs: Needs) -> None:
        loader = self.deps.loader
        if needs.outputs:
            self.folded.outputs |= await loader.outputs(connection, needs.outputs)
        if needs.inputs:
            self.inputs |= await loader.inputs(connection, needs.inputs)
        if needs.payloads:
            self.payloads |= await loader.payloads(connection, needs.payloads)
        awaited, scope = self.deps.awaited, self.loaded.owner_scope
        if needs.definitions:
            self.definitions |= await awaited.definitions(connection, needs.definitions, scope)
        if needs.statuses:
            found = await awaited.ended(connection, needs.statuses, scope)
            for ulid in needs.statuses:
                self.statuses[ulid] = found[ulid].status if ulid in found else "running"
        if needs.instances:
            noted = [self._ended(ulid) for ulid in sorted(needs.instances)]
            limit = self.bounds.max_output_bytes
            self.folded.ended |= await awaited.outputs(connection, noted, scope, limit)

    def _ended(self, ulid: str) -> Ended:
        """How an instance ended, as it was found or as a wait has noted it before."""
        known = self.folded.ended.get(ulid)
        if known is not None:
            return known
        statuses = (wait.statuses.get(ulid) for wait in self.state.waits.values())
        status: Any = next((status for status in statuses if status is not None), "unknown")
        return Ended(ulid, status)

    def _reconsider(self, entries: Sequence[Entry]) -> None:
        """Has waits test again what they turned down before another line set variables.

        Nothing else that a condition reads can change while its wait is open.
        """
        waits = self.state.waits
        if not waits or not any("set" in entry.data for entry in entries):
            return
        conditions = {w: self.graph.nodes[waits[w].node].condition for w in waits}
        self.folded.reconsider(w for w, c in conditions.items() if c and "state" in c.names)

    def _keep(self, entries: Sequence[Entry]) -> None:
        """Has values at hand for the decisions that follow, which come before they are written."""
        for entry in entries:
            if entry.step is not None and "output" in entry.row:
                self.folded.outputs[entry.step] = entry.row["output"]
            if entry.step is not None and "config" in entry.data:
                self.inputs[entry.step] = entry.data["config"]


def bounds_of(settings: Settings, graph: Graph) -> Bounds:
    """The limits of an instance: the settings', lowered by its graph."""
    limits, own = settings.limits, graph.settings.limits

    def lower(name: str) -> int:
        limit: int = getattr(limits, name)
        lowered: int | None = getattr(own, name, None)
        return limit if lowered is None else min(lowered, limit)

    return Bounds(
        max_steps=lower("max_steps"),
        max_items=lower("max_items"),
        max_depth=lower("max_depth"),
        max_started=lower("max_started"),
        max_state_bytes=limits.max_state_bytes,
        max_output_bytes=limits.max_output_bytes,
        input_bytes=settings.steps_input.max_bytes,
    )
