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
from .state import EMPTY, MAIN_LINE, Key, State, Step

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


class ValuesNeeded(Exception):
    """A decision needs outputs or inputs that are not at hand; never leaves ``decide``."""

    def __init__(self, outputs: frozenset[Key] = frozenset(), inputs: frozenset[Key] = frozenset()):
        super().__init__("values needed")
        self.outputs = outputs
        self.inputs = inputs


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


@dataclass(slots=True)
class Draft:
    """One call of ``decide`` at work."""

    graph: Graph
    env: Env
    state: State
    entries: list[Entry]
    outputs: dict[Key, Any]
    queue: deque[tuple[str, str]]
    passes: int = 0
    meter: Meter = field(default_factory=lambda: Meter(MAX_WORK))
    pending_values: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @classmethod
    def of(cls, graph: Graph, state: State, env: Env) -> Draft:
        """A draft that has decided nothing yet."""
        return cls(graph, env, state, [], {}, deque())

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

    def names(self, node: CompiledNode) -> dict[str, Any]:
        """The names that the node's expressions use, bound to their values.

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
            names["item"] = None
        if "steps" in used:
            names["steps"] = self._steps(node.refs.steps)
        return names

    def render(self, node: CompiledNode) -> dict[str, Any]:
        """The templated part of a node's config, with the values put in.

        Raises:
            EvaluationFailed: An expression failed, or the result is beyond bounds.
            ValuesNeeded: An output that it reads is not at hand.
        """
        rendered: dict[str, Any] = node.template.render(self.names(node))
        return rendered if node.template.constant else bounded(node.id, rendered)

    def _steps(self, wanted: frozenset[str] | None) -> dict[str, Any]:
        results = self.state.results
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
            raise ValuesNeeded(outputs=frozenset(missing))
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
            names = self.names(node) if conditional else Scope({}, self.meter)
            if "steps" in names:
                own = {"output": output, "outcome": outcome}
                names["steps"] = {**names["steps"], node.id: own}
            choice = node.choose(outcome, names)
        except EvaluationFailed as error:
            return NO_EDGE, Failure("expression_failed", str(error), retryable=False)
        return {"to": choice.to, "by": choice.by, "index": choice.edge_index}, None

    def leave(
        self,
        node: CompiledNode,
        step: Step,
        outcome: str,
        edge: Mapping[str, Any],
        failure: Failure | None,
    ) -> None:
        """Goes on after a step has ended: the next node, the end of the line, or a failure."""
        if failure is not None:
            self.fail(node.id, failure)
        elif edge["to"] is not None:
            self.queue.append((step.line, edge["to"]))
        elif node.type == "decision":
            message = f"no edge of decision {node.id!r} fits outcome {outcome!r}; add a plain edge"
            self.fail(node.id, Failure("no_edge", message))
        elif step.line == MAIN_LINE:
            self.emit(kinds.COMPLETED, node.id)

    def fail(self, node: str, failure: Failure) -> None:
        """Ends the instance as failed; open steps and waits end with it."""
        self.queue.clear()
        data = {"code": failure.code}
        self.emit(kinds.FAILED, node, None, data, {"message": failure.message})

    def fail_step(
        self,
        node: CompiledNode,
        step: Step,
        failure: Failure,
        *,
        kind: str = kinds.STEP_FAILED,
        **more: Any,
    ) -> None:
        """Ends a step as failed for good and leaves by its failure edge, if it has one.

        Args:
            node: The step's node.
            step: The open step run.
            failure: Why.
            kind: ``step_failed`` or ``step_lost``.
            more: What else the entry says.
        """
        self.outputs[step.id] = None
        edge, broken = self.route(node, step, kinds.FAILURE)
        data = {"code": failure.code, "retryable": failure.retryable, "final": True}
        data |= {"outcome": kinds.FAILURE, "edge": edge, **more}
        self.emit(kind, node.id, step.id, data, {"message": failure.message})
        if broken is None and edge["to"] is None:
            broken = failure
        self.leave(node, step, kinds.FAILURE, edge, broken)

    def retry(self, step: Step, *, failures: int, losses: int, delay: timedelta | None) -> None:
        """Opens the next attempt of a visit, at once or after ``delay``."""
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
        )
        self.emit(kinds.STEP_SCHEDULED, step.node, attempt.id, describe(attempt))

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
    return data


def as_text(at: datetime) -> str:
    """A time as the journal holds it: RFC 3339, with its offset."""
    return at.isoformat()


def _line(line: str) -> dict[str, str]:
    return {} if line == MAIN_LINE else {"line": line}
