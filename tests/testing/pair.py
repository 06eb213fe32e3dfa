"""Two records to which the same happens, and whose answers are compared each time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import fold
from adapter.interpreter.events import Claimed, Failure, Finished, TakeOver, Tick
from adapter.interpreter.state import State
from adapter.records.writers import step_token
from adapter.testing.graphs import BEGINNING, EVENT, SIGNALS, graphs
from tests.testing.sides import FIRST_OWN_ID, twin
from tests.testing.writing import Writing, ask

if TYPE_CHECKING:
    import random

    from adapter.interpreter.entries import Entry
    from adapter.interpreter.events import Event
    from adapter.records.load import Loaded
    from tests.testing.sides import MemorySide, RealSide
    from tests.testing.writing import Written

WORKERS = tuple(letter * 26 for letter in "ABC")
COMMANDS = ("pause", "resume", "retry", "cancel")
AGES = (3, 7, 30, 100, 1_000)


class Pair:
    """PostgreSQL and memory side by side.

    Rows have the same ids in both: those that PostgreSQL gives are given to the rows in memory.

    Args:
        real: PostgreSQL; what stands in it already is left alone.
        chance: Decides what happens.
    """

    def __init__(self, real: RealSide, chance: random.Random) -> None:
        self.real = real
        self.memory: MemorySide = twin(real)
        self.sides = (self.real, self.memory)
        self.chance = chance
        self.keys: dict[str, str] = {}
        self.tokens = 0
        self.done: dict[str, int] = {}
        self.known: dict[str, tuple[int, str | None]] = {}
        self.newest = 0

    async def happen(self, steps: int) -> None:
        """Has something happen so many times."""
        for _ in range(steps):
            await self._clock(0.001)
            name, act = self.chance.choices(_ACTS, _WEIGHTS)[0]
            if await act(self):
                self.done[name] = self.done.get(name, 0) + 1

    async def _clock(self, seconds: float) -> None:
        for side in self.sides:
            await side.age(seconds)

    def _ulid(self) -> str:
        return self.chance.choice(list(self.keys))

    def _token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:026}"

    # what callers do

    async def start(self) -> bool:
        if len(self.keys) > 25:
            return False
        key = self.chance.choice([key for key in graphs() if key != BEGINNING])
        payload = {"n": 1, "others": list(self.keys)[:2]}
        ulid = await self.real.start(key, payload)
        record = self.memory.record
        version = int(record.definitions[key].version)
        number = await self.real.id_of(ulid)
        record.begin(version, payload, str(record.transactions), None, ulid, number)
        self.keys[ulid] = key
        await self.compare_told()
        return True

    async def tell(self) -> bool:
        if not self.keys:
            return False
        ulid = self._ulid()
        kind, payload = self.chance.choice(COMMANDS), {}
        if self.chance.random() < 0.6:
            kind, payload = "signal", {"name": self.chance.choice(SIGNALS), "payload": {"n": 1}}
        for side in self.sides:
            await side.tell(ulid, kind, payload)
        await self.compare_told()
        return True

    async def emit(self) -> bool:
        payload = {"n": self.chance.randrange(3), "text": "é"}
        number = await self.real.emit(EVENT, payload)
        self.memory.record.emit(EVENT, payload, number)
        return True

    async def match(self) -> bool:
        matched = [await side.match() for side in self.sides]
        assert matched[0] == matched[1]
        await self.compare_told()
        return bool(matched[0])

    async def work(self) -> bool:
        worker, leaves = self.chance.choice(WORKERS), self.chance.random() < 0.2
        leaves = leaves and worker in self.memory.record.workers
        for side in self.sides:
            await (side.leave(worker) if leaves else side.beat(worker))
        return True

    async def age(self) -> bool:
        await self._clock(self.chance.choice(AGES))
        return True

    # what turns, steps and relays do

    async def append(self) -> bool:
        """Loads, decides and appends; now and then too late, or twice."""
        if not self.keys:
            return False
        ulid = self._ulid()
        loaded, state = await self.load(ulid)
        writer = self._token()
        events, writer = self._events(loaded, state, writer)
        writing = Writing(self.sides, ulid, self.keys[ulid], loaded, writer)
        writing.begin = self.chance.random() < 0.8
        writing.ended = await self._ended(state)
        stored = await self._stored(ulid, state)
        writing.stored = lambda wait: stored.get(wait.id, ())
        written = await writing.decided(events)
        if written is None:
            return False
        if self.chance.random() < 0.15:
            written.expected += self.chance.choice([-1, 1])
        await self._append(written)
        if self.chance.random() < 0.15:
            written.writer = self.chance.choice([writer, self._token()])
            await self._append(written)
        await self.compare(ulid)
        return True

    async def _append(self, written: Written) -> None:
        answers = []
        for side in self.sides:
            entries = [self._own(side, entry) for entry in written.entries]
            answer = await written.to(side, entries=entries)
            answers.append(answer)
        assert answers[0] == answers[1], (answers, written)
        if answers[0] is not None:
            for children in written.changes.children.values():
                for child in children:
                    key = next(
                        key for key, d in self.real.definitions.items() if d == child.definition
                    )
                    self.keys.setdefault(child.ulid, key)
        await self.compare_told()

    def _own(self, side: Any, entry: Entry) -> Entry:
        """The entry as a record has it: each has another way to say when an instance started."""
        if side is self.real or entry.kind != kinds.STARTED:
            return entry
        told = self.memory.record.inbox[int(entry.data["inbox"])].payload
        return replace(entry, data={**entry.data, "snapshot": told["snapshot"]})

    async def load(self, ulid: str) -> tuple[Loaded, State]:
        """Loads from both; all of it, or what came after what was known."""
        known = self.known.get(ulid, (0, None)) if self.chance.random() < 0.3 else (0, None)
        loads = [await side.loader.load(side.connection, ulid, *known) for side in self.sides]
        shown = [self._shown(one) for one in loads]
        assert shown[0] == shown[1], shown
        self.known[ulid] = (loads[0].seq, loads[0].writer)
        full = [await side.loader.load(side.connection, ulid) for side in self.sides]
        assert self._shown(full[0]) == self._shown(full[1])
        folds = [fold(one.entries, State(seq=one.since)) for one in full]
        assert replace(folds[0], accept_from=folds[1].accept_from) == folds[1]
        return full[0], folds[0]

    @staticmethod
    def _shown(loaded: Loaded) -> Any:
        return (
            (loaded.id, loaded.version, loaded.status, loaded.seq, loaded.since, loaded.writer),
            (loaded.writers, loaded.owner_scope, loaded.facts.trigger, loaded.facts.depth),
            [
                (e.kind, e.node, e.step, {k: v for k, v in e.data.items() if k != "snapshot"})
                for e in loaded.entries
                if e.kind != kinds.SNAPSHOT
            ],
            [(a.id, a.kind, a.event) for a in loaded.inbox],
            [a.payload for a in loaded.inbox if a.kind != "start"],
        )

    def _events(self, loaded: Loaded, state: State, writer: str) -> tuple[list[Event], str]:
        chance = self.chance
        running = [step for step in state.steps.values() if step.status == "running"]
        queued = [s for s in state.steps.values() if s.queue is not None and s.status != "running"]
        if running and chance.random() < 0.5:
            step = chance.choice(running)
            failure = Failure("step_failed", "by chance") if chance.random() < 0.3 else None
            output = {"n": chance.randrange(3)} if failure is None else None
            return [Finished(step.id, step.token or "", output, failure)], step.token or writer
        if queued and chance.random() < 0.5:
            return [Claimed(chance.choice(queued).id, 60)], step_token(writer)
        events: list[Event] = [*loaded.inbox]
        if chance.random() < 0.2:
            expired = frozenset(step.id for step in running if step.queue is not None)
            events.append(TakeOver(frozenset(), expired))
        return [*events, Tick()], writer

    async def _ended(self, state: State) -> dict[str, Any]:
        names = sorted({ulid for wait in state.waits.values() for ulid in wait.instances})
        found: dict[str, Any] = await ask(self.sides, "awaited", "ended", names, "*")
        return found

    async def _stored(self, ulid: str, state: State) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        memory = self.memory
        loaded = await memory.loader.load(memory.connection, ulid)
        accept = fold(loaded.entries, State(seq=loaded.since)).accept_from
        for wait in state.waits.values():
            if wait.kind != "event":
                continue
            pages = [
                await side.looker.look(
                    side.connection,
                    wait,
                    accept_from=state.accept_from if side is self.real else accept,
                    consumed=state.consumed,
                    owner_scope="*",
                )
                for side in self.sides
            ]
            real, other = ([(event.id, event.payload) for event in page] for page in pages)
            assert real == other, wait
            found[wait.id] = pages[0]
        return found

    async def lease(self) -> bool:
        steps = [s for s in self.memory.record.steps.values() if s.get("lease_until") is not None]
        if not steps:
            return False
        keys = frozenset(step["id"] for step in steps)
        await ask(self.sides, "leases", "expired", keys)
        step = self.chance.choice(steps)
        await ask(self.sides, "leases", "rest", step["id"])
        token = self.chance.choice([step["claim_token"], "nobody's"])
        await ask(self.sides, "leases", "renew", step["id"], token, 60.0)
        return True

    async def relay(self) -> bool:
        chance = self.chance
        name = chance.choice(["claim_starts", "claim_pokes", "claim_again", "overdue"])
        claims = [await getattr(s.relaying, name)(s.connection, 100) for s in self.sides]
        real, memory = ({claim.ulid for claim in claim} for claim in claims)
        assert real == memory, (name, real, memory)
        for ulid in sorted(real):
            if name != "overdue" and chance.random() < 0.2:
                for side in self.sides:
                    await side.relaying.release(side.connection, [ulid])
        if real:
            asked = [
                set(await side.relaying.cancelled(side.connection, sorted(real)))
                for side in self.sides
            ]
            assert asked[0] == asked[1]
        peeked = [await side.relaying.peek(side.connection) for side in self.sides]
        assert peeked[0] == peeked[1]
        await ask(self.sides, "workers", "gone", frozenset(WORKERS))
        return bool(real)

    # comparing

    async def compare(self, ulid: str) -> None:
        """Compares all rows of an instance."""
        rows = [await side.rows(ulid) for side in self.sides]
        for name in rows[0]:
            assert rows[0][name] == rows[1][name], (ulid, name, rows[0][name], rows[1][name])

    async def compare_told(self) -> None:
        """Compares who was told what, and gives new rows in memory the ids of the real ones."""
        record = self.memory.record
        fresh = [told for told in record.inbox.values() if told.id >= FIRST_OWN_ID]
        rows = await self.real.connection.fetch(
            "SELECT id, instance_id, kind, payload::text, event_id FROM workflow_inbox"
            " WHERE id > $1 ORDER BY id",
            self.newest,
        )
        real = sorted(
            (told_key(r[1], r[2], orjson.loads(r[3] or "null"), r[4]), r[0]) for r in rows
        )
        mine = sorted((told_key(t.instance, t.kind, t.payload, t.event), t.id) for t in fresh)
        told = [[key for key, _ in one] for one in (real, mine)]
        assert told[0] == told[1], told
        for (_, number), (_, own) in zip(real, mine, strict=True):
            self._renumber(own, number)
        self.newest = max([self.newest, *(number for _, number in real)])

    def _renumber(self, own: int, number: int) -> None:
        record = self.memory.record
        told = record.inbox[own]
        row = record.instances[told.instance]
        told.id = number
        for table in (record.inbox, record.unpoked, row.inbox, row.unapplied):
            if table.pop(own, None) is not None:
                table[number] = told


def told_key(instance: int, kind: str, payload: Any, event: Any) -> str:
    """What tells one inbox row from another."""
    kept = {k: v for k, v in (payload or {}).items() if k not in ("snapshot", "after")}
    return orjson.dumps([instance, kind, kept, event], option=orjson.OPT_SORT_KEYS).decode()


_ACTS = (
    ("start", Pair.start),
    ("tell", Pair.tell),
    ("emit", Pair.emit),
    ("match", Pair.match),
    ("work", Pair.work),
    ("age", Pair.age),
    ("append", Pair.append),
    ("lease", Pair.lease),
    ("relay", Pair.relay),
)
_WEIGHTS = (4, 6, 3, 3, 1, 2, 30, 3, 5)
