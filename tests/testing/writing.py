"""Decisions for tests of records: what a writer would append to an instance as it stands."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapter.graph.compiled import compile_graph
from adapter.interpreter.apply import fold
from adapter.interpreter.decide import decide
from adapter.interpreter.env import Bounds, Env
from adapter.interpreter.projection import project
from adapter.interpreter.state import State
from adapter.testing.graphs import graphs
from adapter.testing.process import POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapter.interpreter.children import Ended
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.events import Event, StoredEvent
    from adapter.interpreter.needs import Needs
    from adapter.interpreter.projection import Changes
    from adapter.interpreter.state import Key, Wait
    from adapter.records.load import Loaded
    from tests.testing.sides import Side

FIRST_ID = 1_000_000
"""Ids that no sequence of a test comes to."""


@dataclass
class Written:
    """What is to be appended."""

    instance: int
    expected: int
    entries: list[Entry]
    changes: Changes
    writer: str

    async def to(self, side: Side, **more: Any) -> Any:
        """Appends it."""
        arguments: dict[str, Any] = {
            "instance": self.instance,
            "expected_seq": self.expected,
            "entries": self.entries,
            "changes": self.changes,
            "writer": self.writer,
            **more,
        }
        return await side.appender.append(side.connection, **arguments)


_IDS = itertools.count(FIRST_ID)
_NAMES = itertools.count(1)


@dataclass
class Writing:
    """Decides for one instance; asks one record, or several that must answer alike, for values."""

    sides: Sequence[Side]
    ulid: str
    key: str
    loaded: Loaded
    writer: str
    stored: Callable[[Wait], Sequence[StoredEvent]] = lambda _wait: ()
    ended: dict[str, Ended] = field(default_factory=dict)
    begin: bool = True
    outputs: dict[Key, Any] = field(default_factory=dict)
    inputs: dict[Key, Any] = field(default_factory=dict)
    payloads: dict[Key, Any] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)

    async def decided(self, events: Sequence[Event]) -> Written | None:
        """What follows from events; None when nothing does."""
        loaded, graph = self.loaded, compile_graph(graphs()[self.key])
        before = state = fold(loaded.entries, State(seq=loaded.since))
        entries: list[Entry] = []
        for event in events:
            decision = decide(graph, state, event, self._env())
            while not decision.complete:
                await self._fetch(decision.needs)
                decision = decide(graph, state, event, self._env())
            entries += decision.entries
            state = decision.state
            for entry in decision.entries:
                self._keep(entry)
        if not entries:
            return None
        changes = project(before, entries, state, ulid=self.ulid, writer=self.writer)
        return Written(int(loaded.id), before.seq, entries, changes, self.writer)

    def _env(self) -> Env:
        return Env(
            facts=self.loaded.facts,
            now=self.loaded.now,
            writer=self.writer,
            worker="w" * 26,
            step_id=lambda: next(_IDS),
            wait_id=lambda: next(_IDS),
            child_id=lambda: next(_IDS),
            ulid=lambda: f"C{next(_NAMES):025}",
            begin=self.begin,
            activities=True,
            bounds=Bounds(),
            policies=POLICIES,
            stored=self.stored,
            statuses=self.statuses,
            outputs=self.outputs,
            inputs=self.inputs,
            payloads=self.payloads,
            definitions=self.definitions,
            ended=self.ended,
        )

    async def _fetch(self, needs: Needs) -> None:
        sides = self.sides
        if needs.outputs:
            self.outputs |= await ask(sides, "loader", "outputs", needs.outputs)
        if needs.inputs:
            self.inputs |= await ask(sides, "loader", "inputs", needs.inputs)
        if needs.payloads:
            self.payloads |= await ask(sides, "loader", "payloads", needs.payloads)
        if needs.definitions:
            self.definitions |= await ask(sides, "awaited", "definitions", needs.definitions, "*")
        if needs.statuses:
            ended = await ask(sides, "awaited", "ended", needs.statuses, "*")
            for other in needs.statuses:
                self.statuses[other] = ended[other].status if other in ended else "running"
        if needs.instances:
            noted = [self.ended[other] for other in sorted(needs.instances)]
            self.ended |= await ask(sides, "awaited", "outputs", noted, "*", 10_000)

    def _keep(self, entry: Entry) -> None:
        if entry.step is not None and "output" in entry.row:
            self.outputs[entry.step] = entry.row["output"]
        if entry.step is not None and "config" in entry.data:
            self.inputs[entry.step] = entry.data["config"]


async def ask(sides: Sequence[Side], part: str, name: str, *arguments: Any) -> Any:
    """Asks all records, and returns what they answer alike."""
    answers = [
        await getattr(getattr(side, part), name)(side.connection, *arguments) for side in sides
    ]
    assert all(answer == answers[0] for answer in answers), (part, name, arguments, answers)
    return answers[0]
