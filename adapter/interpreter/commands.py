"""What arrives in the inbox: each row is acted on once, done or refused with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import entries as kinds
from .retrying import reopen, retryable
from .state import MAIN_LINE
from .waiting import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from .draft import Draft
    from .events import Arrived


def arrived(draft: Draft, event: Arrived) -> None:
    """Applies one inbox row.

    Every row leads to exactly one entry that names it, so that it is stamped with its result.
    """
    command = _COMMANDS.get(event.kind)
    if command is None:
        refuse(draft, event, "not_supported")
    else:
        command(draft, event)


def refuse(draft: Draft, event: Arrived, reason: str) -> None:
    """Notes that a row was refused, and why."""
    note(draft, event, {"status": "refused", "reason": reason})


def note(draft: Draft, event: Arrived, result: dict[str, Any]) -> None:
    """Notes a row that changes nothing else."""
    data: dict[str, Any] = {"inbox": event.id, "kind": event.kind, "result": result}
    if event.event is not None:
        data["event"] = event.event
    draft.emit(kinds.INBOX_APPLIED, None, None, data)


def _payload(event: Arrived) -> dict[str, Any]:
    return event.payload if isinstance(event.payload, dict) else {}


def _start(draft: Draft, event: Arrived) -> None:
    if draft.state.status != "pending":
        refuse(draft, event, "ended" if draft.state.ended else "already_started")
        return
    start = _payload(event)
    data = {"inbox": event.id, "snapshot": start.get("snapshot"), "after": start.get("after")}
    draft.emit(kinds.STARTED, None, None, data)
    draft.queue.append((MAIN_LINE, draft.graph.trigger.id))


def _event(draft: Draft, event: Arrived) -> None:
    # The event itself is taken by the look for stored events, lowest id first: another one may
    # have been committed before it and matched after it.
    if draft.state.ended:
        refuse(draft, event, "ended")
    else:
        note(draft, event, {"status": "done"})


def _signal(draft: Draft, event: Arrived) -> None:
    payload = _payload(event)
    name = payload.get("name")
    if draft.state.ended:
        refuse(draft, event, "ended")
    elif not isinstance(name, str):
        refuse(draft, event, "not_supported")
    elif len(draft.state.signals) >= draft.env.bounds.max_signals:
        refuse(draft, event, "too_many_signals")
    else:
        draft.payloads[event.id] = payload
        data: dict[str, Any] = {"inbox": event.id, "name": name}
        if payload.get("correlation") is not None:
            data["correlation"] = payload["correlation"]
        draft.emit(kinds.SIGNAL_RECEIVED, None, None, data)
        for wait in list(draft.state.waits.values()):
            if name in wait.signals:
                settle(draft, wait)


def _child(draft: Draft, event: Arrived) -> None:
    # The wait reads how the instance ended from that instance's own row.
    if draft.state.ended:
        refuse(draft, event, "ended")
        return
    note(draft, event, {"status": "done"})
    ulid = _payload(event).get("ulid")
    for wait in list(draft.state.waits.values()):
        if ulid in wait.instances:
            settle(draft, wait)


def _pause(draft: Draft, event: Arrived) -> None:
    if draft.state.ended:
        refuse(draft, event, "ended")
    elif draft.state.paused:
        refuse(draft, event, "already_paused")
    elif draft.state.status == "pending":
        refuse(draft, event, "not_started")
    else:
        draft.emit(kinds.PAUSED, None, None, {"inbox": event.id, **_reason(event)})


def _resume(draft: Draft, event: Arrived) -> None:
    if draft.state.ended:
        refuse(draft, event, "ended")
    elif not draft.state.paused:
        refuse(draft, event, "not_paused")
    else:
        draft.emit(kinds.RESUMED, None, None, {"inbox": event.id})


def _cancel(draft: Draft, event: Arrived) -> None:
    if draft.state.ended:
        refuse(draft, event, "ended")
        return
    data: dict[str, Any] = {"inbox": event.id, **_reason(event)}
    if _payload(event).get("by") == "parent":
        data["code"] = "cancelled_by_parent"
    draft.queue.clear()
    draft.emit(kinds.CANCELLED, None, None, data)


def _retry(draft: Draft, event: Arrived) -> None:
    if draft.state.status != "failed":
        refuse(draft, event, "not_failed")
    elif not retryable(draft.state):
        refuse(draft, event, "nothing_to_retry")
    else:
        draft.emit(kinds.RETRIED, None, None, {"inbox": event.id})
        reopen(draft)


def _reason(event: Arrived) -> dict[str, Any]:
    reason = _payload(event).get("reason")
    return {"reason": reason} if isinstance(reason, str) else {}


_COMMANDS: dict[str, Callable[[Draft, Arrived], None]] = {
    "start": _start,
    "event": _event,
    "signal": _signal,
    "child": _child,
    "pause": _pause,
    "resume": _resume,
    "cancel": _cancel,
    "retry": _retry,
}
