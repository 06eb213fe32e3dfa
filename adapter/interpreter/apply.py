"""The fold: ``apply(state, entry) -> state``, total and without evaluating anything.

Every kind of entry has one function here. An entry that does not fit the state (it cannot come
from ``decide``) changes nothing but ``seq``; a kind that is not known is the loader's business,
which refuses to fold a journal that a newer interpreter has written.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from . import entries as kinds
from .state import EMPTY, MAIN_LINE, AcceptFrom, InstanceStatus, Key, Result, State, Step, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .entries import Entry

_K = TypeVar("_K")
_V = TypeVar("_V")


def apply(state: State, entry: Entry) -> State:
    """Returns the state after one more entry.

    Args:
        state: The state before; it is left as it is.
        entry: The next entry of the journal, in ``seq`` order.
    """
    change = _CHANGES.get(entry.kind)
    if change is None:
        return state.evolve()
    return change(state, entry)


def fold(entries: Iterable[Entry], state: State | None = None) -> State:
    """Returns the state after all entries, beginning with ``state`` or the empty one."""
    state = State() if state is None else state
    for entry in entries:
        state = apply(state, entry)
    return state


def _started(state: State, entry: Entry) -> State:
    accept = AcceptFrom(entry.data.get("snapshot"), entry.data.get("after"))
    return state.evolve(status="running", accept_from=accept)


def _step_scheduled(state: State, entry: Entry) -> State:
    return _opened(state, entry, _new_step(entry, "retrying" if _due(entry) else "scheduled"))


def _step_started(state: State, entry: Entry) -> State:
    data = entry.data
    if data.get("new"):
        return _opened(state, entry, _new_step(entry, "running"))
    known = None if entry.step is None else state.steps.get(entry.step)
    if known is None:
        return state.evolve()
    token, worker = data.get("token"), data.get("worker")
    step = replace(known, status="running", due_at=None, token=token, worker=worker)
    return state.evolve(steps=_with(state.steps, step.id, step))


def _step_passed(state: State, entry: Entry) -> State:
    state = _opened(state, entry, _new_step(entry, "running"))
    values = entry.data.get("set")
    if values:
        state = state.evolve(seq=state.seq, values={**state.values, **values})
    return _closed(state, entry, str(entry.data.get("outcome", kinds.SUCCESS)), seq=0)


def _step_succeeded(state: State, entry: Entry) -> State:
    return _closed(state, entry, str(entry.data.get("outcome", kinds.SUCCESS)))


def _step_failed(state: State, entry: Entry) -> State:
    return _closed(state, entry, kinds.FAILURE if entry.data.get("final") else None)


def _wait_opened(state: State, entry: Entry) -> State:
    data = entry.data
    step = _new_step(entry, "waiting")
    state = _opened(state, entry, replace(step, due_at=None))
    wait = Wait(
        id=data["wait"],
        step=step.id,
        node=step.node,
        kind=data.get("kind", "event"),
        due_at=_due(entry),
        event=data.get("event"),
        match=data.get("match"),
        outcome=data.get("outcome"),
    )
    return replace(state, waits=_with(state.waits, wait.id, wait))


def _wait_settled(state: State, entry: Entry) -> State:
    event = entry.data.get("event")
    if event is not None:
        state = replace(state, consumed=state.consumed | {event})
    state = replace(state, waits=_without(state.waits, entry.data.get("wait")))
    return _closed(state, entry, str(entry.data.get("outcome", kinds.SUCCESS)))


def _noted(state: State, entry: Entry) -> State:
    return state.evolve()


def _ended(status: InstanceStatus) -> Callable[[State, Entry], State]:
    def change(state: State, entry: Entry) -> State:
        current = entry.node if entry.node is not None else state.current
        return state.evolve(status=status, steps=EMPTY, waits=EMPTY, current=current)

    return change


def _snapshot(state: State, entry: Entry) -> State:
    return State.from_json(entry.data, seq=state.seq + 1)


_CHANGES: dict[str, Callable[[State, Entry], State]] = {
    kinds.STARTED: _started,
    kinds.STEP_SCHEDULED: _step_scheduled,
    kinds.STEP_STARTED: _step_started,
    kinds.STEP_PASSED: _step_passed,
    kinds.STEP_SUCCEEDED: _step_succeeded,
    kinds.STEP_FAILED: _step_failed,
    kinds.STEP_LOST: _step_failed,
    kinds.WAIT_OPENED: _wait_opened,
    kinds.WAIT_FIRED: _wait_settled,
    kinds.WAIT_TIMED_OUT: _wait_settled,
    kinds.INBOX_APPLIED: _noted,
    kinds.COMPLETED: _ended("completed"),
    kinds.FAILED: _ended("failed"),
    kinds.CANCELLED: _ended("cancelled"),
    kinds.SNAPSHOT: _snapshot,
}


def _new_step(entry: Entry, status: Any) -> Step:
    data = entry.data
    return Step(
        id=entry.step if entry.step is not None else 0,
        node=entry.node or "",
        type=data.get("type", ""),
        visit=data.get("visit", 1),
        attempt=data.get("attempt", 1),
        status=status,
        line=data.get("line", MAIN_LINE),
        failures=data.get("failures", 0),
        losses=data.get("losses", 0),
        source=data.get("source"),
        due_at=None if status == "running" else _due(entry),
        token=data.get("token"),
        worker=data.get("worker"),
    )


def _opened(state: State, entry: Entry, step: Step) -> State:
    first = step.visit > state.visits.get(step.node, 0)
    steps = _with(state.steps, step.id, step)
    return state.evolve(
        status=_status(steps),
        steps=steps,
        visits=_with(state.visits, step.node, step.visit) if first else state.visits,
        steps_count=state.steps_count + (1 if first else 0),
        current=step.node if step.line == MAIN_LINE else state.current,
        newest_id=step.id,
    )


def _closed(state: State, entry: Entry, outcome: str | None, *, seq: int = 1) -> State:
    step = None if entry.step is None else state.steps.get(entry.step)
    if step is None:
        return state.evolve(seq=state.seq + seq)
    results = state.results
    if outcome is not None:
        results = _with(results, step.node, Result(step.id, outcome))
    steps = _without(state.steps, step.id)
    return state.evolve(
        seq=state.seq + seq,
        status=_status(steps),
        steps=steps,
        results=results,
    )


def _status(steps: Mapping[Key, Step]) -> InstanceStatus:
    waiting = bool(steps) and all(step.status == "waiting" for step in steps.values())
    return "waiting" if waiting else "running"


def _due(entry: Entry) -> datetime | None:
    text = entry.data.get("due_at")
    return datetime.fromisoformat(text) if text else None


def _with(mapping: Mapping[_K, _V], key: _K, value: _V) -> dict[_K, _V]:
    return {**mapping, key: value}


def _without(mapping: Mapping[_K, _V], key: _K | None) -> dict[_K, _V]:
    return {k: v for k, v in mapping.items() if k != key}


__all__ = ["Key", "apply", "fold"]
