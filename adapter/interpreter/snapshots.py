"""The state as JSON and back: what a ``snapshot`` entry holds."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .state import AcceptFrom, Frozen, State, Step, Wait
from .structure import EMPTY, Done, Family, Key, Line, Position, Result, Scope, Signal

if TYPE_CHECKING:
    from collections.abc import Mapping


def as_json(state: State) -> dict[str, Any]:
    """The state as JSON values; parts that are empty in most instances are left out."""
    data: dict[str, Any] = {
        "status": state.status,
        "values": dict(state.values),
        "visits": dict(state.visits),
        "results": _results(state.results),
        "steps": [_plain(step) for step in state.steps.values()],
        "waits": [_plain(wait) for wait in state.waits.values()],
        "consumed": sorted(state.consumed, key=str),
        "steps_count": state.steps_count,
        "current": state.current,
        "accept_from": asdict(state.accept_from),
        "newest_id": state.newest_id,
    }
    if state.paused:
        data["paused"] = True
    if state.scopes:
        data["scopes"] = [_scope(scope) for scope in state.scopes.values()]
        data["lines"] = {name: _results(line.results) for name, line in state.lines.items()}
    if state.signals:
        data["signals"] = [[s.id, s.name, s.correlation] for s in state.signals]
    if state.started:
        data["started"] = state.started
    if state.families:
        data["families"] = {k: [list(f.steps), list(f.ulids)] for k, f in state.families.items()}
    if state.frozen is not None:
        frozen = state.frozen
        data["frozen"] = {
            "position": None if frozen.position is None else asdict(frozen.position),
            "steps": [_plain(step) for step in frozen.steps.values()],
            "scopes": [_scope(scope) for scope in frozen.scopes.values()],
            "lines": {name: _results(line.results) for name, line in frozen.lines.items()},
        }
    return data


def from_json(data: Mapping[str, Any], seq: int) -> State:
    """The inverse of ``as_json``."""
    waits = [_wait_from(wait) for wait in data["waits"]]
    frozen = data.get("frozen")
    return State(
        seq=seq,
        status=data["status"],
        values=data["values"],
        visits=data["visits"],
        results=_results_from(data["results"]),
        steps=_steps_from(data["steps"]),
        waits={wait.id: wait for wait in waits},
        consumed=frozenset(data["consumed"]),
        steps_count=data["steps_count"],
        current=data["current"],
        accept_from=AcceptFrom(**data["accept_from"]),
        newest_id=data["newest_id"],
        paused=data.get("paused", False),
        scopes=_scopes_from(data.get("scopes", ())),
        lines=_lines_from(data.get("lines", {})),
        signals=tuple(Signal(*signal) for signal in data.get("signals", ())),
        started=data.get("started", 0),
        families={
            key: Family(tuple(steps), tuple(ulids))
            for key, (steps, ulids) in data.get("families", {}).items()
        },
        frozen=None
        if frozen is None
        else Frozen(
            _position_from(frozen["position"]),
            _steps_from(frozen["steps"]),
            _scopes_from(frozen["scopes"]),
            _lines_from(frozen["lines"]),
        ),
    )


def _results(results: Mapping[str, Result]) -> dict[str, Any]:
    return {node: [r.step, r.outcome] for node, r in results.items()}


def _results_from(data: Mapping[str, Any]) -> dict[str, Result]:
    return {node: Result(*pair) for node, pair in data.items()}


def _lines_from(data: Mapping[str, Any]) -> dict[str, Line]:
    return {name: Line(_results_from(results)) for name, results in data.items()}


def _steps_from(data: Any) -> dict[Key, Step]:
    steps = [Step(**_timed(step)) for step in data]
    return {step.id: step for step in steps}


def _wait_from(data: Mapping[str, Any]) -> Wait:
    lists = {name: tuple(data[name]) for name in ("signals", "instances", "family") if name in data}
    return Wait(**{**_timed(data), **lists})


def _scope(scope: Scope) -> dict[str, Any]:
    data = {**_plain(scope), "done": {n: _done(done) for n, done in scope.done.items()}}
    return {**data, "results": _results(scope.results)}


def _done(done: Done) -> dict[str, Any]:
    data = {**_plain(done), "results": _results(done.results)}
    if done.position is not None:
        data["position"] = asdict(done.position)
    return data


def _scopes_from(data: Any) -> dict[str, Scope]:
    scopes = [
        Scope(
            **{
                **scope,
                "done": {name: _done_from(done) for name, done in scope["done"].items()},
                "results": _results_from(scope["results"]),
            }
        )
        for scope in data
    ]
    return {scope.key: scope for scope in scopes}


def _done_from(data: Mapping[str, Any]) -> Done:
    position = _position_from(data.get("position"))
    results = _results_from(data["results"])
    return Done(**{**data, "position": position, "results": results})


def _position_from(data: Mapping[str, Any] | None) -> Position | None:
    return None if data is None else Position(**data)


def _plain(value: Any) -> dict[str, Any]:
    """A flat value's own fields; what is None or empty is left out."""
    data: dict[str, Any] = {}
    for name in value.__dataclass_fields__:
        part = getattr(value, name)
        if part is None or part == () or part is EMPTY:
            continue
        if isinstance(part, datetime):
            part = part.isoformat()
        elif isinstance(part, tuple):
            part = list(part)
        data[name] = part
    return data


def _timed(data: Mapping[str, Any]) -> dict[str, Any]:
    due = data.get("due_at")
    return {**data, "due_at": datetime.fromisoformat(due)} if due else dict(data)
