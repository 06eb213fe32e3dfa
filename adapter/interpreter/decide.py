"""The decider: ``decide(graph, state, event, env)`` says what follows from what has happened.

Pure and total: it reads no clock, draws no chance, does no I/O and raises nothing. Where it lacks
a value (an output that an expression reads), it decides nothing and names what it needs; the
caller fetches that and asks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from adapter.graph.compiled import ONE_ATTEMPT, CompiledNode, Graph

from . import entries as kinds
from .draft import Draft, ValuesNeeded, Visit, describe
from .events import Arrived, Event, Failure, Finished, TakeOver, Tick
from .nodes import module_for
from .state import MAIN_LINE, Key, State, Step
from .waiting import settle

if TYPE_CHECKING:
    from .entries import Entry
    from .env import Env


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, or the values without which nothing could be.

    Attributes:
        entries: The entries to append, in order.
        state: The state with the entries applied.
        outputs: Step runs whose output is needed first.
        inputs: Step runs whose resolved config is needed first.
    """

    entries: tuple[Entry, ...]
    state: State
    outputs: frozenset[Key] = frozenset()
    inputs: frozenset[Key] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.outputs and not self.inputs


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
                _arrived(draft, event)
            case Finished():
                _finished(draft, event)
            case TakeOver():
                _taken_over(draft, event)
            case Tick():
                _tick(draft)
        _enter_queued(draft)
    except ValuesNeeded as need:
        return Decision((), state, need.outputs, need.inputs)
    return Decision(tuple(draft.entries), draft.state)


def _arrived(draft: Draft, event: Arrived) -> None:
    state = draft.state
    if event.kind == "start" and state.status == "pending":
        start = event.payload if isinstance(event.payload, dict) else {}
        data = {
            "inbox": event.id,
            "snapshot": start.get("snapshot"),
            "after": start.get("after"),
        }
        draft.emit(kinds.STARTED, None, None, data)
        draft.queue.append((MAIN_LINE, draft.graph.trigger.id))
        return
    if state.ended:
        result = {"status": "refused", "reason": "ended"}
    elif event.kind == "event":
        # The event itself is taken by the look for stored events, lowest id first: another one
        # may have been committed before it and matched after it.
        result = {"status": "done"}
    elif event.kind == "start":
        result = {"status": "refused", "reason": "already_started"}
    else:
        result = {"status": "refused", "reason": "not_supported"}
    data = {"inbox": event.id, "kind": event.kind, "result": result}
    if event.event is not None:
        data["event"] = event.event
    draft.emit(kinds.INBOX_APPLIED, None, None, data)


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
    draft.leave(node, step, event.outcome, edge, broken)


def _failed(draft: Draft, node: CompiledNode, step: Step, failure: Failure) -> None:
    retry = _retry(draft, node)
    failures = step.failures + 1
    if retry is None or not failure.retryable or failures >= retry.max_attempts:
        draft.fail_step(node, step, failure)
        return
    data = {"code": failure.code, "retryable": True, "final": False}
    draft.emit(kinds.STEP_FAILED, node.id, step.id, data, {"message": failure.message})
    delay = retry.delay(failures)
    jitter = float(getattr(retry, "jitter", 0.0) or 0.0)
    spread = timedelta(seconds=delay.total_seconds() * jitter * draft.env.random)
    draft.retry(step, failures=failures, losses=step.losses, delay=delay - spread)


def _retry(draft: Draft, node: CompiledNode) -> Any:
    if node.retry is not ONE_ATTEMPT:
        return node.retry
    action = getattr(node.config, "action", None)
    policy = draft.env.policies.get(cast("str", action)) if action else None
    return policy.retry if policy is not None else None


def _taken_over(draft: Draft, event: TakeOver) -> None:
    for step in _open_steps(draft):
        if step.status != "running" or step.token == draft.env.writer or draft.state.ended:
            continue
        node = draft.graph.nodes[step.node]
        counted = step.worker is None or step.worker in event.gone
        losses = step.losses + (1 if counted else 0)
        final = losses >= draft.env.bounds.max_lost
        if not final:
            draft.emit(kinds.STEP_LOST, node.id, step.id, {"counted": counted, "final": False})
            draft.retry(step, failures=step.failures, losses=losses, delay=None)
            continue
        message = f"{losses} workers died in step {node.id!r}; see what its handler does to them"
        lost = Failure("worker_lost", message, retryable=False)
        draft.fail_step(node, step, lost, kind=kinds.STEP_LOST, counted=counted)


def _tick(draft: Draft) -> None:
    if draft.state.ended or draft.state.status == "pending":
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
        if not due or draft.state.steps.get(step.id) is not step:
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
            draft.fail(node.id, Failure("max_steps_exceeded", message))
            return
        visit = draft.visit(node, line)
        if draft.tired:
            data = describe(visit.step)
            draft.emit(kinds.STEP_SCHEDULED, node.id, visit.step.id, data)
            continue
        draft.passes += 1
        module_for(node.type).enter(draft, node, visit)
