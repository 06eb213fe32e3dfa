"""``delay``: goes on after a while, or at a time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from adapter.graph.durations import parse_duration, parse_time
from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.passing import fail_to_resolve
from adapter.interpreter.waiting import open_wait

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode
    from adapter.interpreter.draft import Draft, Visit

TYPE = "delay"


def enter(draft: Draft, node: CompiledNode, visit: Visit) -> None:
    """Works out the due time once and waits for it."""
    try:
        due = due_time(draft.render(node, visit.step.line), draft.env.now, "for")
    except (EvaluationFailed, ValueError) as error:
        fail_to_resolve(draft, node, visit, error)
        return
    open_wait(draft, node, visit, kind="timer", due_at=due or draft.env.now)


def due_time(rendered: dict[str, object], now: datetime, span: str) -> datetime | None:
    """The earlier of ``until`` and now + the duration named by ``span``; None without either.

    A template that gives null is an error: it neither waits for ever nor goes on at once.

    Raises:
        ValueError: One of them is not what it should be.
    """
    times: list[datetime] = []
    if "until" in rendered:
        times.append(parse_time(_text(rendered["until"])))
    if span in rendered:
        try:
            times.append(now + parse_duration(_text(rendered[span])))
        except OverflowError:
            times.append(datetime.max.replace(tzinfo=now.tzinfo))
    return min(times) if times else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is no text that holds a duration or time")
    return value
