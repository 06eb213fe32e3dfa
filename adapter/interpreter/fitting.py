"""What fits a wait: stored events and signals, the oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adapter.graph.budgets import BUDGET, Meter, Scope
from adapter.graph.expressions import EvaluationFailed

from . import entries as kinds
from .settling import end_wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapter.graph.compiled import CompiledNode

    from .draft import Draft
    from .events import StoredEvent
    from .state import Wait
    from .structure import Signal

_SORTED = orjson.OPT_SORT_KEYS

WORK_PER_EVENT = BUDGET / 20
"""What a wait's condition may cost for one event: about 5 ms; one that costs more does not hold."""


def first_event(draft: Draft, node: CompiledNode, wait: Wait) -> StoredEvent | None:
    """The oldest stored event that the wait may take and whose condition holds."""
    if wait.event is None:
        return None
    for event in draft.env.stored(wait):
        if event.id in draft.state.consumed:
            continue
        if wait.due_at is not None and event.at is not None and event.at > wait.due_at:
            continue
        if _holds(draft, node, wait, event.payload):
            return event
    return None


def settle_signals(draft: Draft, node: CompiledNode, wait: Wait) -> None:
    """Takes the signals that fit; fires the wait when it has all it needs.

    Each name takes the oldest signal that fits, each signal satisfies one wait. A wait for several
    takes each as it comes, so that no other wait takes it meanwhile.
    """
    config: Any = node.config
    for name in wait.signals:
        if name in wait.taken:
            continue
        signal = _first_signal(draft, node, wait, name)
        if signal is None:
            continue
        payload = draft.payload(signal.id)["payload"]
        if len(wait.signals) == 1 and config.signal is not None:
            end_wait(draft, node, wait, kinds.WAIT_FIRED, kinds.SUCCESS, payload, signal=signal.id)
            return
        if config.mode == "any":
            output = {"signal": name, "payload": payload}
            end_wait(draft, node, wait, kinds.WAIT_FIRED, kinds.SUCCESS, output, signal=signal.id)
            return
        data = {"wait": wait.id, "signal": signal.id, "name": name}
        draft.emit(kinds.WAIT_ADVANCED, node.id, None, data)
        wait = draft.state.waits[wait.id]
    if len(wait.taken) == len(wait.signals):
        output = {name: draft.payload(taken)["payload"] for name, taken in wait.taken.items()}
        end_wait(draft, node, wait, kinds.WAIT_FIRED, kinds.SUCCESS, output)


def _first_signal(draft: Draft, node: CompiledNode, wait: Wait, name: str) -> Signal | None:
    for signal in draft.state.signals:
        if signal.name != name:
            continue
        if wait.correlation is not None and signal.correlation != wait.correlation:
            continue
        if not wait.match and node.condition is None:
            return signal
        payload = draft.payload(signal.id)["payload"]
        if not _contains(payload, wait.match or {}):
            continue
        if _holds(draft, node, wait, payload):
            return signal
    return None


def _contains(payload: Any, match: Mapping[str, Any]) -> bool:
    if not match:
        return True
    if not isinstance(payload, dict):
        return False
    return all(name in payload and _same(payload[name], match[name]) for name in match)


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return orjson.dumps(one, option=_SORTED) == orjson.dumps(other, option=_SORTED)


def _holds(draft: Draft, node: CompiledNode, wait: Wait, payload: Any) -> bool:
    if node.condition is None:
        return True
    try:
        # Each one has a meter of its own, so that none is turned down for those before it.
        line = draft.state.steps[wait.step].line
        names = Scope(draft.names(node, line), Meter(WORK_PER_EVENT))
        names["event"] = payload
        return node.condition.test(names)
    except EvaluationFailed:
        return False
