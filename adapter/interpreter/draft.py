"""A decision in the making: the state so far, the entries so far, and the nodes still to enter.

Node modules work on a draft and on nothing else. Everything here is local to one call of
``decide``; the caller sees only the finished entries.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapter.graph.budgets import BUDGET, Meter, Scope
from adapter.graph.expressions import EvaluationFailed

from . import entries as kinds
from .apply import apply
from .bulk import bounded
from .entries import Entry
from .events import Failure
from .needs import Needs, ValuesNeeded
from .reading import results_on
from .state import EMPTY, MAIN_LINE, Key, Result, State, Step
from .structure import owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from adapter.graph.compiled import CompiledNode, Graph

    from .env import Env

MAX_PASSES = 64
"""Nodes that one decision may enter; the rest stays scheduled for the next append."""

MAX_WORK = 3 * BUDGET
"""What the expressions of one decision may cost together: about 0.3 s; above it the node fails."""

NO_EDGE: Mapping[str, Any] = {"to": None, "by": "none", "index": None}


@dataclass(frozen=True, slots=True)
class Visit:
    """One entry into a node: the step run that stands for it, new or scheduled before."""

    step: Step
    new: bool

    def data(self) -> dict[str, Any]:
        """What the entry that opens the step run says about it."""
        if not self.new:
            return {"visit": self.step.visit, "type": self.step.type, **_line(self.step.line)}
        return {"new": True, **describe(self.step)}

    def opening(self) -> dict[str, Any]:
        """What an entry says that opens a step run which stays open: all of it."""
        return {"new": True, **describe(self.step)} if self.new else describe(self.step)


@dataclass(slots=True)
class Draft:
    """One call of ``decide`` at work."""

    graph: Graph
    env: Env
    state: State
    entries: list[Entry]
    outputs: dict[Key, Any]
    queue: deque[tuple[str, str]]
    before: State
    inputs: dict[Key, Any] = field(default_factory=dict)
    payloads: dict[Key, Any] = field(default_factory=dict)
    passes: int = 0
    meter: Meter = field(default_factory=lambda: Meter(MAX_WORK))
    pending_values: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    pending_results: Mapping[str, Result] = field(default_factory=lambda: EMPTY)

    @classmethod
    def of(cls, graph: Graph, state: State, env: Env) -> Draft:
        """A draft that has decided nothing yet."""
        return cls(graph, env, state, [], {}, deque(), before=state)

    def emit(
        self,
        kind: str,
        node: str | None = None,
        step: Key | None = None,
        data: Mapping[str, Any] | None = None,
        row: Mapping[str, Any] | None = None,
    ) -> None:
        """Adds one entry and folds it into the state at once."""
        entry = Entry(kind, node, step, data or {}, row or {})
        self.entries.append(entry)
        self.state = apply(self.state, entry)

    def visit(self, node: CompiledNode, line: str) -> Visit:
        """A new entry into a node, with the next visit number."""
        visit = self.state.visits.get(node.id, 0) + 1
        step = Step(self.env.step_id(), node.id, node.type, visit, 1, "scheduled", line)
        return Visit(step, new=True)

    def names(self, node: CompiledNode, line: str) -> dict[str, Any]:
        """The names that the node's expressions use, bound to their values on its line.

        Raises:
            ValuesNeeded: An output that they read is not at hand.
        """
        facts, used = self.env.facts, node.refs.names
        names = Scope({}, self.meter)
        if "trigger" in used:
            names["trigger"] = facts.trigger
        if "state" in used:
            names["state"] = {**self.state.values, **self.pending_values}
        if "subject" in used:
            names["subject"] = facts.subject
        if "instance" in used:
            names["instance"] = facts.instance
        if "item" in used:
            names["item"] = self.item(line)
        if "steps" in used:
            names["steps"] = self._steps(node.refs.steps, line)
        return names

    def item(self, line: str) -> Any:
        """The item of the innermost ``for_each`` that the line is in; None outside of any."""
        while line != MAIN_LINE:
            key, name = owner_of(line)
            scope = self.state.scopes.get(key)
            if scope is None:
                return None
            if scope.kind == "for_each":
                items = self.config(scope.source)["items"]
                return items[int(name)] if int(name) < len(items) else None
            line = scope.line
        return None

    def config(self, step: Key) -> Any:
        """The resolved config of a step run.

        Raises:
            ValuesNeeded: It is not at hand.
        """
        if step in self.inputs:
            return self.inputs[step]
        if step not in self.env.inputs:
            raise ValuesNeeded(Needs(inputs=frozenset({step})))
        return self.env.inputs[step]

    def output(self, step: Key) -> Any:
        """The output of a finished step run.

        Raises:
            ValuesNeeded: It is not at hand.
        """
        if step in self.outputs:
            return self.outputs[step]
        if step not in self.env.outputs:
            raise ValuesNeeded(Needs(outputs=frozenset({step})))
        return self.env.outputs[step]

    def payload(self, inbox: Key) -> Any:
        """The payload of an inbox row.

        Raises:
            ValuesNeeded: It is not at hand.
        """
        if inbox in self.payloads:
            return self.payloads[inbox]
        if inbox not in self.env.payloads:
            raise ValuesNeeded(Needs(payloads=frozenset({inbox})))
        return self.env.payloads[inbox]

    def render(self, node: CompiledNode, line: str) -> dict[str, Any]:
        """The templated part of a node's config, with the values put in.

        Raises:
            EvaluationFailed: An expression failed, or the result is beyond bounds.
            ValuesNeeded: An output that it reads is not at hand.
        """
        rendered: dict[str, Any] = node.template.render(self.names(node, line))
        return rendered if node.template.constant else bounded(node.id, rendered)

    def _steps(self, wanted: frozenset[str] | None, line: str) -> dict[str, Any]:
        results = results_on(self.state, line)
        if self.pending_results:
            results = {**results, **self.pending_results}
        steps: dict[str, Any] = {}
        missing: set[Key] = set()
        for node in results if wanted is None else wanted:
            result = results.get(node)
            if result is None:
                continue
            if node == self.graph.trigger.id:
                output = self.env.facts.trigger
            elif result.step in self.outputs:
                output = self.outputs[result.step]
            elif result.step in self.env.outputs:
                output = self.env.outputs[result.step]
            else:
                missing.add(result.step)
                continue
            steps[node] = {"output": output, "outcome": result.outcome}
        if missing:
            raise ValuesNeeded(Needs(outputs=frozenset(missing)))
        return steps

    def route(
        self, node: CompiledNode, step: Step, outcome: str, output: Any = None
    ) -> tuple[Mapping[str, Any], Failure | None]:
        """The edge that leaves ``node``, or why none could be chosen.

        The outcome and output of the step that just ended are visible to the edges' conditions.
        ``failure`` leaves only by an edge that names it: a plain edge never swallows a failure.
        """
        if not node.edges:
            return NO_EDGE, None
        try:
            conditional = any(edge.condition is not None for edge in node.edges)
            names = self.names(node, step.line) if conditional else Scope({}, self.meter)
            if "steps" in names:
                own = {"output": output, "outcome": outcome}
                names["steps"] = {**names["steps"], node.id: own}
            choice = node.choose(outcome, names)
        except EvaluationFailed as error:
            return NO_EDGE, Failure("expression_failed", str(error), retryable=False)
        return {"to": choice.to, "by": choice.by, "index": choice.edge_index}, None

    def retry(
        self,
        step: Step,
        *,
        failures: int,
        losses: int,
        delay: timedelta | None,
        queue: str | None = None,
    ) -> None:
        """Opens the next attempt of a visit, at once or after ``delay``.

        Args:
            step: The attempt before.
            failures: Attempts of the visit that have failed.
            losses: Attempts of the visit whose worker died.
            delay: None for none.
            queue: The task queue that is to run it from now on; None leaves that as it is.
        """
        due = None if delay is None else self.env.now + delay
        attempt = Step(
            self.env.step_id(),
            step.node,
            step.type,
            step.visit,
            step.attempt + 1,
            "scheduled" if due is None else "retrying",
            step.line,
            failures,
            losses,
            step.source if step.source is not None else step.id,
            due,
            queue=step.queue if queue is None else queue,
        )
        self.emit(kinds.STEP_SCHEDULED, step.node, attempt.id, describe(attempt))

    @property
    def may_begin(self) -> bool:
        """Whether handlers may be begun now."""
        return self.env.begin and not self.state.paused

    @property
    def tired(self) -> bool:
        """Whether the next node is better entered by another decision."""
        return self.passes >= MAX_PASSES or self.meter.spent > MAX_WORK / 3

    def take(self) -> tuple[str, str] | None:
        """The next node to enter, with its line; None when nothing is left to enter."""
        return self.queue.popleft() if self.queue and not self.state.ended else None


def describe(step: Step) -> dict[str, Any]:
    """What a journal entry says about the step run that it opens; defaults are left out."""
    data: dict[str, Any] = {"type": step.type, "visit": step.visit, **_line(step.line)}
    if step.attempt != 1:
        data["attempt"] = step.attempt
    if step.failures:
        data["failures"] = step.failures
    if step.losses:
        data["losses"] = step.losses
    if step.source is not None:
        data["source"] = step.source
    if step.due_at is not None:
        data["due_at"] = as_text(step.due_at)
    if step.queue is not None:
        data["queue"] = step.queue
    return data


def as_text(at: datetime) -> str:
    """A time as the journal holds it: RFC 3339, with its offset."""
    return at.isoformat()


def _line(line: str) -> dict[str, str]:
    return {} if line == MAIN_LINE else {"line": line}
