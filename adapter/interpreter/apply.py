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
from .closing import freeze, without_line, without_scope
from .snapshots import from_json
from .state import EMPTY, MAIN_LINE, AcceptFrom, InstanceStatus, Key, Result, State, Step, Wait
from .structure import Done, Family, Line, Position, Scope, Signal, line_of, owner_of

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
    known = None if entry.step is None else state.steps.get(entry.step)
    if known is not None and entry.data.get("known"):
        step = replace(known, queue=entry.data.get("queue"))
        return state.evolve(steps=_with(state.steps, step.id, step))
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
    if "started" in entry.data:
        state = replace(state, started=state.started + entry.data["started"])
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
        signals=tuple(data.get("signals", ())),
        correlation=data.get("correlation"),
        instances=tuple(data.get("instances", ())),
        children=bool(data.get("children")),
        family=tuple(data.get("family", ())),
    )
    started = state.started + data.get("started", 0)
    return replace(state, waits=_with(state.waits, wait.id, wait), started=started)


def _wait_advanced(state: State, entry: Entry) -> State:
    data = entry.data
    wait = state.waits.get(data.get("wait", 0))
    if wait is None:
        return state.evolve()
    signals = state.signals
    if "signal" in data:
        wait = replace(wait, taken=_with(wait.taken, data["name"], data["signal"]))
        signals = _untaken(signals, data["signal"])
    else:
        wait = replace(wait, statuses=_with(wait.statuses, data["child"], data["status"]))
    return state.evolve(waits=_with(state.waits, wait.id, wait), signals=signals)


def _wait_settled(state: State, entry: Entry) -> State:
    event, signal = entry.data.get("event"), entry.data.get("signal")
    if event is not None:
        state = replace(state, consumed=state.consumed | {event})
    if signal is not None:
        state = replace(state, signals=_untaken(state.signals, signal))
    if (
        entry.kind == kinds.WAIT_FAILED
        and (wait := state.waits.get(entry.data["wait"])) is not None
    ):
        state = replace(state, families=_families(state, [wait]))
    state = replace(state, waits=_without(state.waits, entry.data.get("wait")))
    return _closed(state, entry, str(entry.data.get("outcome", kinds.SUCCESS)))


def _families(state: State, waits: Iterable[Wait]) -> Mapping[str, Family]:
    """What these waits have started, for a retry of their visits."""
    families = dict(state.families)
    for wait in waits:
        if wait.children and (step := state.steps.get(wait.step)) is not None:
            steps = (*wait.family, wait.step)
            families[f"{step.node}.{step.visit}"] = Family(steps, wait.instances)
    return families


def _untaken(signals: tuple[Signal, ...], taken: Key) -> tuple[Signal, ...]:
    return tuple(signal for signal in signals if signal.id != taken)


def _scope_opened(state: State, entry: Entry) -> State:
    data = entry.data
    step = _new_step(entry, "waiting")
    state = _opened(state, entry, replace(step, due_at=None))
    source = step.id if step.source is None else step.source
    scope = Scope(step.node, step.visit, step.id, source, step.line, data["scope"], data["total"])
    known = state.scopes.get(scope.key)
    if known is not None:
        scope = replace(known, step=step.id)
    return replace(state, scopes=_with(state.scopes, scope.key, scope))


def _line_ended(state: State, entry: Entry) -> State:
    data = entry.data
    key, name = owner_of(data["line"])
    scope, line = state.scopes.get(key), state.lines.get(data["line"], Line())
    if scope is None:
        return state.evolve()
    position = data.get("position")
    failed = data["outcome"] == kinds.FAILURE
    done = Done(
        data["outcome"],
        entry.step,
        data.get("size", 0),
        data.get("code"),
        data.get("message"),
        None if position is None else Position(**position),
        line.results if failed else EMPTY,
    )
    kept = {} if scope.kind == "repeat" else scope.done
    results = scope.results if scope.kind == "for_each" else {**scope.results, **line.results}
    scope = replace(scope, done={**kept, name: done}, results=results)
    state = without_line(state, data["line"])
    return state.evolve(scopes=_with(state.scopes, key, scope), status=_status(state))


def _scope_closed(state: State, entry: Entry) -> State:
    scope = state.scopes.get(entry.data["scope"])
    if scope is None:
        return state.evolve()
    state = _merged(state, scope.line, scope.results)
    return _closed(without_scope(state, scope), entry, entry.data["outcome"])


def _merged(state: State, line: str, results: Mapping[str, Result]) -> State:
    if not results:
        return state
    if line == MAIN_LINE:
        return replace(state, results={**state.results, **results})
    known = state.lines.get(line, Line())
    return replace(state, lines=_with(state.lines, line, Line({**known.results, **results})))


def _signal_received(state: State, entry: Entry) -> State:
    data = entry.data
    signal = Signal(data["inbox"], data["name"], data.get("correlation"))
    return state.evolve(signals=(*state.signals, signal))


def _paused(state: State, entry: Entry) -> State:
    return state.evolve(paused=True, status="paused")


def _resumed(state: State, entry: Entry) -> State:
    state = replace(state, paused=False)
    return state.evolve(status=_status(state))


def _retried(state: State, entry: Entry) -> State:
    """Scopes, lines and their counts are as they were; steps are opened again by what follows."""
    frozen = state.frozen
    if frozen is None:
        return state.evolve()
    scopes, lines = dict(frozen.scopes), dict(frozen.lines)
    for key, scope in frozen.scopes.items():
        failed = {n: d for n, d in scope.done.items() if d.position is not None}
        left = {name: done for name, done in scope.done.items() if name not in failed}
        scopes[key] = replace(scope, done=left)
        lines |= {line_of(key, name): Line(done.results) for name, done in failed.items()}
    return state.evolve(status="running", frozen=None, scopes=scopes, lines=lines)


def _noted(state: State, entry: Entry) -> State:
    return state.evolve()


def _ended(status: InstanceStatus) -> Callable[[State, Entry], State]:
    def change(state: State, entry: Entry) -> State:
        main = entry.data.get("line", MAIN_LINE) == MAIN_LINE
        current = entry.node if entry.node is not None and main else state.current
        frozen = freeze(state, entry) if status == "failed" else None
        families = _families(state, state.waits.values()) if frozen is not None else state.families
        return state.evolve(
            status=status,
            steps=EMPTY,
            waits=EMPTY,
            scopes=EMPTY,
            lines=EMPTY,
            current=current,
            paused=False,
            frozen=frozen,
            families=families,
        )

    return change


def _snapshot(state: State, entry: Entry) -> State:
    return from_json(entry.data, state.seq + 1)


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
    kinds.WAIT_ADVANCED: _wait_advanced,
    kinds.WAIT_FAILED: _wait_settled,
    kinds.SCOPE_OPENED: _scope_opened,
    kinds.LINE_ENDED: _line_ended,
    kinds.SCOPE_CLOSED: _scope_closed,
    kinds.SIGNAL_RECEIVED: _signal_received,
    kinds.PAUSED: _paused,
    kinds.RESUMED: _resumed,
    kinds.RETRIED: _retried,
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
        queue=data.get("queue"),
    )


def _opened(state: State, entry: Entry, step: Step) -> State:
    first = step.visit > state.visits.get(step.node, 0)
    steps = _with(state.steps, step.id, step)
    if step.line != MAIN_LINE and step.line not in state.lines:
        state = _begun(state, step.line)
    return state.evolve(
        status=_status(state, steps),
        steps=steps,
        visits=_with(state.visits, step.node, step.visit) if first else state.visits,
        steps_count=state.steps_count + (1 if first else 0),
        current=step.node if step.line == MAIN_LINE else state.current,
        newest_id=step.id,
    )


def _begun(state: State, line: str) -> State:
    key, _ = owner_of(line)
    scope = state.scopes.get(key)
    scopes = state.scopes
    if scope is not None:
        scopes = _with(scopes, key, replace(scope, begun=scope.begun + 1))
    return replace(state, lines=_with(state.lines, line, Line()), scopes=scopes)


def _closed(state: State, entry: Entry, outcome: str | None, *, seq: int = 1) -> State:
    step = None if entry.step is None else state.steps.get(entry.step)
    if step is None:
        return state.evolve(seq=state.seq + seq)
    results, lines = state.results, state.lines
    if outcome is not None:
        result = Result(step.id, outcome)
        if step.line == MAIN_LINE:
            results = _with(results, step.node, result)
        else:
            line = lines.get(step.line, Line())
            lines = _with(lines, step.line, Line(_with(line.results, step.node, result)))
    steps = _without(state.steps, step.id)
    return state.evolve(
        seq=state.seq + seq,
        status=_status(state, steps),
        steps=steps,
        results=results,
        lines=lines,
    )


def _status(state: State, steps: Mapping[Key, Step] | None = None) -> InstanceStatus:
    if state.paused:
        return "paused"
    steps = state.steps if steps is None else steps
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
