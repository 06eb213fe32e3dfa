"""The decider: ``decide(graph, state, event, env)`` says what follows from what has happened.

Pure and total: it reads no clock, draws no chance, does no I/O and raises nothing. Where it lacks
a value (an output that an expression reads), it decides nothing and names what it needs; the
caller fetches that and asks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from . import entries as kinds
from .commands import arrived
from .draft import Draft, Visit, describe
from .events import Arrived, Claimed, Event, Failure, Finished, HandedBack, TakeOver, Tick
from .lanes import losses_of, policy_of, queue_of
from .leaving import fail_instance, fail_step, leave
from .needs import NOTHING, Needs, ValuesNeeded
from .nodes import module_for
from .nodes.action import begin_claimed
from .waiting import settle

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode, Graph

    from .entries import Entry
    from .env import Env
    from .state import State, Step


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, or the values without which nothing could be.

    Attributes:
        entries: The entries to append, in order.
        state: The state with the entries applied.
        needs: What must be fetched first.
    """

    entries: tuple[Entry, ...]
    state: State
    needs: Needs = NOTHING

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.needs is NOTHING


def decide(graph: Graph, state: State, event: Event, env: Env) -> Decision:
    """Returns the entries that follow from ``event`` in ``state``.

    Args:
        graph: The published document that the instance runs.
        state: Where the instance stands.
        event: What has happened.
        env: The clock's time, fresh ids and the values at hand.
    """
    draft = Draft.of(graph, state, env)
    try:
        match event:
            case Arrived():
                arrived(draft, event)
            case Finished():
                _finished(draft, event)
            case TakeOver():
                _taken_over(draft, event)
            case Tick():
                _tick(draft)
            case Claimed():
                begin_claimed(draft, event)
            case HandedBack():
                _handed_back(draft, event)
        _enter_queued(draft)
    except ValuesNeeded as need:
        return Decision((), state, need.needs)
    return Decision(tuple(draft.entries), draft.state)


def _finished(draft: Draft, event: Finished) -> None:
    step = draft.state.steps.get(event.step)
    if step is None or step.status != "running" or step.token != event.token:
        return
    node = draft.graph.nodes[step.node]
    if event.failure is not None:
        _failed(draft, node, step, event.failure)
        return
    draft.outputs[step.id] = event.output
    edge, broken = draft.route(node, step, event.outcome, event.output)
    data = {"outcome": event.outcome, "edge": edge}
    draft.emit(kinds.STEP_SUCCEEDED, node.id, step.id, data, {"output": event.output})
    leave(draft, node, step, event.outcome, edge, broken)


def _failed(draft: Draft, node: CompiledNode, step: Step, failure: Failure) -> None:
    retry = policy_of(draft, node)
    failures = step.failures + 1
    if retry is None or not failure.retryable or failures >= retry.max_attempts:
        fail_step(draft, node, step, failure)
        return
    data = {"code": failure.code, "retryable": True, "final": False}
    draft.emit(kinds.STEP_FAILED, node.id, step.id, data, {"message": failure.message})
    delay = retry.delay(failures)
    jitter = float(getattr(retry, "jitter", 0.0) or 0.0)
    spread = timedelta(seconds=delay.total_seconds() * jitter * draft.env.random)
    draft.retry(step, failures=failures, losses=step.losses, delay=delay - spread)


def _taken_over(draft: Draft, event: TakeOver) -> None:
    for step in _open_steps(draft):
        if step.status != "running" or draft.state.ended or step.id not in draft.state.steps:
            continue
        if step.token == draft.env.writer:
            continue
        if not event.inline if step.queue is None else step.id not in event.expired:
            continue
        counted = step.worker is None or step.worker in event.gone
        _lost(draft, step, counted=counted)


def _lost(draft: Draft, step: Step, *, counted: bool) -> None:
    node = draft.graph.nodes[step.node]
    losses = losses_of(draft, step) if counted else step.losses
    if losses < draft.env.bounds.max_lost:
        draft.emit(kinds.STEP_LOST, node.id, step.id, {"counted": counted, "final": False})
        queue = queue_of(draft, node, losses) if step.queue is None else step.queue
        draft.retry(step, failures=step.failures, losses=losses, delay=None, queue=queue)
        return
    message = f"{losses} workers died in step {node.id!r}; see what its handler does to them"
    lost = Failure("worker_lost", message, retryable=False)
    fail_step(draft, node, step, lost, kind=kinds.STEP_LOST, counted=counted)


def _handed_back(draft: Draft, event: HandedBack) -> None:
    step = draft.state.steps.get(event.step)
    if step is not None and step.status == "running" and step.token == event.token:
        _lost(draft, step, counted=False)


def _tick(draft: Draft) -> None:
    if draft.state.ended or draft.state.status == "pending" or draft.state.paused:
        return
    for wait in list(draft.state.waits.values()):
        settle(draft, wait)
        _enter_queued(draft)
    for step in _open_steps(draft):
        due = step.status == "scheduled" or (
            step.status == "retrying"
            and step.due_at is not None
            and step.due_at <= draft.env.now
            and draft.env.begin
        )
        if not due or step.queue is not None or draft.state.steps.get(step.id) is not step:
            continue
        if draft.tired or draft.state.ended:
            return
        draft.passes += 1
        module_for(step.type).enter(draft, draft.graph.nodes[step.node], Visit(step, new=False))
        _enter_queued(draft)


def _open_steps(draft: Draft) -> list[Step]:
    return list(draft.state.steps.values())


def _enter_queued(draft: Draft) -> None:
    while (entry := draft.take()) is not None:
        line, target = entry
        node = draft.graph.nodes[target]
        if draft.state.steps_count >= draft.env.bounds.max_steps:
            limit = draft.env.bounds.max_steps
            message = (
                f"the instance has entered {limit} nodes (limits.max_steps); is a loop endless?"
            )
            fail_instance(draft, line, node.id, Failure("max_steps_exceeded", message))
            return
        visit = draft.visit(node, line)
        if draft.tired or draft.state.paused:
            data = describe(visit.step)
            draft.emit(kinds.STEP_SCHEDULED, node.id, visit.step.id, data)
            continue
        draft.passes += 1
        module_for(node.type).enter(draft, node, visit)
