"""Matching: brings emitted events to the instances that wait for them and the graphs they start."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.graph.compiled import cached_graph, compile_graph
from adapter.graph.expressions import EvaluationFailed
from adapter.records.keys import new_ulid
from adapter.records.matched import Batch, Hook, Matched, matched_of
from adapter.records.starts import starts_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from adapter.graph.conditions import Condition
    from adapter.settings import Settings

LOGGER = logging.getLogger("almanac.matching")


@dataclass(frozen=True, slots=True)
class MatchReport:
    """What one call of ``match_events`` has done.

    Attributes:
        events: Events that were taken; as many as the limit when more may be waiting.
        deliveries: Inbox rows written to instances that wait.
        starts: Instances started.
    """

    events: int
    deliveries: int
    starts: int


def match_events(connection: Connection, settings: Settings, limit: int = 500) -> MatchReport:
    """Matches events that nobody has matched yet, lowest ids first.

    Safe to run in several processes at once: each takes events that the others have not. A wait is
    told only of the lowest event of the batch that fits it; it looks for the others itself. An
    event without an owner starts application-wide definitions; an event of an owner starts that
    owner's and the application-wide ones that the owner has none of the same key for, and the
    instances are the owner's.

    A trigger condition that cannot be evaluated counts as not met and is logged: one bad payload
    must not hold up all events after it.

    Args:
        connection: In a transaction in READ COMMITTED that the caller commits; until then the
            events are locked.
        settings: Names and key types.
        limit: How many events to take.
    """
    records = matched_of(settings)
    batch = records.match(connection, limit)
    hooks = _that_hold(connection, records, batch)
    starts = [(new_ulid(), hook.event, hook.version) for hook in hooks]
    started = starts_of(settings).start_by_events(connection, starts) if starts else 0
    return MatchReport(batch.events, batch.deliveries, started)


def _that_hold(connection: Connection, records: Matched, batch: Batch) -> list[Hook]:
    asked = sorted({hook.event for hook in batch.hooks if hook.conditional})
    payloads = records.payloads(connection, asked) if asked else {}
    conditions: dict[str, Condition | None] = {}
    held = []
    for hook in batch.hooks:
        if hook.conditional:
            if hook.version not in conditions:
                conditions[hook.version] = _condition(connection, records, hook)
            if not _holds(conditions[hook.version], payloads[hook.event], hook):
                continue
        held.append(hook)
    return held


def _condition(connection: Connection, records: Matched, hook: Hook) -> Condition | None:
    graph = cached_graph(hook.checksum)
    if graph is None:
        graph = compile_graph(records.graph(connection, hook.version), checksum=hook.checksum)
    return graph.trigger.condition


def _holds(condition: Condition | None, payload: Any, hook: Hook) -> bool:
    if condition is None:
        return True
    names = {
        "trigger": payload,
        "event": payload,
        "steps": {},
        "state": {},
        "subject": None,
        "instance": {},
        "item": None,
    }
    try:
        return condition.test(names)
    except EvaluationFailed as error:
        LOGGER.warning(
            "event %s does not start version %s: its trigger condition failed: %s",
            hook.event,
            hook.version,
            error,
        )
        return False
