"""Why edges were taken, and others not: their conditions, with the values of that moment.

The journal says which edge was taken, not what its condition saw. But it leads through every state
that the instance was in, and outputs never change, so the values are those of that very moment,
however often the node was visited since.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from adapter.graph.compiled import compile_graph
from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import fold
from adapter.interpreter.draft import Draft
from adapter.interpreter.entries import Entry
from adapter.interpreter.env import Env, Facts
from adapter.interpreter.needs import ValuesNeeded
from adapter.interpreter.state import State
from adapter.interpreter.structure import MAIN_LINE
from adapter.interpreter.version import CURRENT
from adapter.records.drawing import key_of
from adapter.records.journaled import Journaled, journaled_of
from adapter.records.load import NewerJournal
from adapter.services.joining import Joined, connection_of
from adapter.services.reading import accept_most, accept_ulid, no_instance
from adapter.services.told import lines_of
from adapter.services.views import View

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from adapter.graph.compiled import CompiledNode, Graph
    from adapter.settings import Settings

OTHER_RULES: Final = (
    "by the rules of this version another edge would be taken: a version with other rules took this"
    " one, so its values cannot be told exactly"
)


@dataclass(frozen=True, slots=True)
class TestView(View):
    """One condition that was tested.

    Attributes:
        to: Where its edge leads.
        holds: What came out; None when it failed.
        because: What was compared, a sentence for each part that decided.
        explanation: All of it, as ``Condition.explain`` gives it.
    """

    to: str
    holds: bool | None
    because: tuple[str, ...]
    explanation: Any


@dataclass(frozen=True, slots=True)
class WhyView(View):
    """One choice between edges with conditions.

    Attributes:
        seq: The journal entry.
        line: Where the node stands, as of steps.
        to: The node that is entered next; None when no edge was taken.
        by: ``condition``, ``plain`` or ``none``.
        tests: The conditions in the order in which they were tested, up to the one that held.
        note: Set when the values cannot be told exactly: why.
    """

    seq: int
    node: str
    line: str
    outcome: str
    to: str | None
    by: str
    tests: tuple[TestView, ...]
    note: str | None


def explain(joined: Joined, settings: Settings, ulid: str, *, most: int) -> tuple[WhyView, ...]:
    """Returns why an instance took its edges, where conditions had a say; the newest choices.

    It reads the whole journal: about a second for an instance of 20,000 entries.

    Args:
        joined: An open connection or session; best in REPEATABLE READ.
        settings: Names and key types.
        ulid: The instance's public id.
        most: How many choices.

    Raises:
        InvalidInput: ``invalid_ulid``; ``invalid_filter`` for the number.
        NotFound: ``instance_not_found``.
        AlmanacError: ``newer_journal``: a newer version wrote to it.
    """
    accept_most(most)
    known, connection, records = accept_ulid(ulid), connection_of(joined), journaled_of(settings)
    head = records.head(connection, known)
    if head is None:
        raise no_instance(known)
    graph = compile_graph(orjson.loads(head.graph), checksum=head.checksum)
    facts = Facts(
        ulid=known,
        trigger=None if head.trigger is None else orjson.loads(head.trigger),
        subject=None if head.subject is None else orjson.loads(head.subject),
        instance={"id": known, "key": head.key},
    )
    told = _Telling(connection, records, graph, facts, most)
    for row in records.entries(connection, known):
        if row.interpreter > CURRENT or row.kind not in kinds.KINDS:
            raise NewerJournal(
                f"instance {known}: entry {row.seq} was written by a newer version; upgrade this"
                " one to explain it",
                ulid=known,
            )
        step = None if row.step_run_id is None else key_of(row.step_run_id)
        told.take(row.seq, Entry(row.kind, row.node_id, step, orjson.loads(row.data)))
    return tuple(told.views())


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a choice saw, kept until all is read: most of them are never asked for."""

    seq: int
    entry: Entry
    node: CompiledNode
    line: str
    state: State


class _Telling:
    """Follows a journal and keeps each choice between conditions with the state it was made in."""

    def __init__(
        self, connection: Connection, records: Journaled, graph: Graph, facts: Facts, most: int
    ) -> None:
        self._connection = connection
        self._records = records
        self._graph = graph
        self._facts = facts
        self._state = State()
        self._outputs: dict[Any, Any] = {}
        self._configs: dict[Any, Any] = {}
        self._choices: deque[_Choice] = deque(maxlen=most)

    def take(self, seq: int, entry: Entry) -> None:
        """Takes the next entry."""
        before, self._state = self._state, fold([entry], self._state)
        if "config" in entry.data and entry.step is not None:
            self._configs[entry.step] = entry.data["config"]
        node = None if entry.node is None else self._graph.nodes.get(entry.node)
        edge, outcome = entry.data.get("edge"), entry.data.get("outcome")
        if node is None or edge is None or outcome in (None, kinds.FAILURE):
            return
        if edge["by"] == "outcome" or all(one.condition is None for one in node.edges):
            return
        line = entry.data.get("line")
        if line is None:
            step = None if entry.step is None else before.steps.get(entry.step)
            line = MAIN_LINE if step is None else step.line
        # The entry's own changes, such as new variables, are what the conditions saw.
        self._choices.append(_Choice(seq, entry, node, line, self._state))

    def views(self) -> list[WhyView]:
        """Returns the choices, explained."""
        return [self._view(choice) for choice in self._choices]

    def _view(self, choice: _Choice) -> WhyView:
        names, edge = self._names(choice), choice.entry.data["edge"]
        tests: list[TestView] = []
        for one in choice.node.edges:
            if one.condition is None:
                continue
            explanation = one.condition.explain(names)
            tests.append(
                TestView(one.to, explanation["result"], lines_of(explanation, names), explanation)
            )
            if explanation["result"] is not False:
                break
        try:
            index = choice.node.choose(choice.entry.data["outcome"], names).edge_index
        except EvaluationFailed:
            index = None
        return WhyView(
            seq=choice.seq,
            node=choice.node.id,
            line=choice.line,
            outcome=choice.entry.data["outcome"],
            to=edge["to"],
            by=edge["by"],
            tests=tuple(tests),
            note=None if index == edge["index"] else OTHER_RULES,
        )

    def _names(self, choice: _Choice) -> dict[str, Any]:
        while True:
            draft = Draft.of(self._graph, choice.state, self._env())
            try:
                names = draft.names(choice.node, choice.line)
                own = None if choice.entry.step is None else draft.output(choice.entry.step)
            except ValuesNeeded as missing:
                self._outputs |= self._records.outputs(self._connection, missing.needs.outputs)
                self._configs |= dict.fromkeys(missing.needs.inputs - self._configs.keys())
                continue
            if "steps" in names:
                told = {"output": own, "outcome": choice.entry.data["outcome"]}
                names["steps"] = {**names["steps"], choice.node.id: told}
            return names

    def _env(self) -> Env:
        return Env(
            facts=self._facts,
            now=datetime.now(UTC),
            writer="",
            worker="",
            step_id=lambda: 0,
            wait_id=lambda: 0,
            outputs=self._outputs,
            inputs=self._configs,
        )
