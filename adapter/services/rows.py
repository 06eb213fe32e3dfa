"""Rows of the record as readers get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adapter.records.drawing import key_of
from adapter.services.reasons import Departure, why
from adapter.services.views import (
    ChildView,
    EdgeView,
    EffectView,
    FailureView,
    InboxView,
    Reference,
    SignalView,
    StepView,
    StopView,
    WaitView,
)

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from sqlalchemy import Row


def summary_of(row: Row[Any]) -> dict[str, Any]:
    """Returns the attributes of an ``InstanceSummary``."""
    failure = None
    if row.failure_code is not None:
        failure = FailureView(row.failure_code, row.failure_message, row.failed_node_id)
    return {
        "ulid": row.ulid,
        "id": key_of(row.id),
        "key": row.key,
        "version": row.number,
        "status": row.status,
        "current_node": row.current_node_id,
        "steps_count": row.steps_count,
        "owner": reference_of(row.owner_type, row.owner_id),
        "subject": reference_of(row.subject_type, row.subject_id, row.subject_key),
        "failure": failure,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "updated_at": row.updated_at,
    }


def step_of(row: Row[Any]) -> StepView:
    """Returns a step run."""
    return StepView(
        id=key_of(row.id),
        node=row.node_id,
        type=row.node_type,
        line=row.line,
        visit=row.visit,
        attempt=row.attempt,
        status=row.status,
        outcome=row.outcome,
        input=json_of(row.input),
        output=json_of(row.output),
        error_code=row.error_code,
        error_message=row.error_message,
        error_retryable=row.error_retryable,
        scheduled_for=row.scheduled_for,
        started_at=row.started_at,
        finished_at=row.finished_at,
        progress=json_of(row.progress),
        progress_at=row.progress_at,
    )


def wait_of(row: Row[Any]) -> WaitView:
    """Returns a wait."""
    return WaitView(
        id=key_of(row.id),
        step=key_of(row.step_run_id),
        node=row.node_id,
        kind=row.kind,
        status=row.status,
        due_at=row.due_at,
        event=row.event_key,
        match=json_of(row.match),
        condition=json_of(row.condition),
        timeout_outcome=None if row.due_at is None else row.outcome,
        signals=tuple(json_of(row.signals) or ()),
        correlation=row.correlation,
        instances=tuple(json_of(row.instances) or ()),
        opened_at=row.created_at,
        fired_at=row.fired_at,
    )


def edge_of(
    row: Row[Any], document: Mapping[str, Any], lines: Mapping[tuple[str, int], str]
) -> EdgeView:
    """Returns an edge that was taken, with the reason as the document gives it.

    Args:
        row: The journal entry, with the kind of the one after it where no edge was taken.
        document: The published document.
        lines: The line that each visit to a node stands on.
    """
    edge = json_of(row.edge) or {}
    left = Departure(row.node_id, row.line, row.outcome, row.code, row.next_kind)
    return EdgeView(
        seq=row.seq,
        at=row.at,
        step=None if row.step_run_id is None else key_of(row.step_run_id),
        node=row.node_id,
        line=row.line,
        outcome=row.outcome,
        to=edge.get("to"),
        by=edge.get("by") or "none",
        why=why(document, edge, left, lines),
        code=row.code,
    )


def child_of(row: Row[Any], listing: frozenset[str]) -> ChildView:
    """Returns an instance that another one has started.

    Args:
        row: Its row, with the node that started it and its place among those it started.
        listing: The nodes that start an instance for each item of a list.
    """
    return ChildView(
        ulid=row.ulid,
        step=None if row.parent_step_run_id is None else key_of(row.parent_step_run_id),
        index=row.place if row.node_id in listing else None,
        key=row.key,
        status=row.status,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def inbox_of(row: Row[Any], kept: Container[int | str] = ()) -> InboxView:
    """Returns a row of an inbox; ``kept`` has the ids of signals that no wait has taken."""
    return InboxView(
        id=key_of(row.id),
        kind=row.kind,
        status="open" if row.applied_at is None else row.status or "done",
        reason=row.reason,
        kept=key_of(row.id) in kept,
        event=row.event,
        payload=json_of(row.payload),
        sender=row.sender,
        created_at=row.created_at,
        applied_at=row.applied_at,
    )


def stop_of(row: Row[Any]) -> StopView:
    """Returns what has paused or cancelled an instance."""
    return StopView(reason=row.reason, sender=row.sender, at=row.at)


def signal_of(row: Row[Any]) -> SignalView:
    """Returns a signal that is kept."""
    return SignalView(
        id=key_of(row.id),
        name=row.name,
        payload=json_of(row.payload),
        correlation=row.correlation,
        sender=row.sender,
        created_at=row.created_at,
    )


def effect_of(row: Row[Any]) -> EffectView:
    """Returns an effect that is to happen once."""
    unfinished = "claimed" if row.alive else "uncertain"
    return EffectView(
        key=row.key,
        name=row.name,
        step=None if row.step is None else key_of(row.step),
        node=row.node,
        visit=None if row.visit is None else int(row.visit),
        status="done" if row.done else unfinished,
        value=json_of(row.value),
        created_at=row.created_at,
    )


def reference_of(kind: str | None, key: str | None, name: str | None = None) -> Reference | None:
    """Returns a row of the host's, None where there is none."""
    return None if kind is None or key is None else Reference(kind, key, name)


def json_of(text: str | None) -> Any:
    """Returns the value of a column of JSON that was read as text."""
    return None if text is None else orjson.loads(text)
