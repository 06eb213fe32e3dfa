"""Reasons in words: why an edge was taken, and what an instance waits for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from adapter.interpreter.entries import FAILED, FAILURE
from adapter.interpreter.structure import owner_of
from adapter.services.outlines import types_of
from adapter.services.views import ENDED, ChildView, StepView, WaitView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STRUCTURE: Final = frozenset({"parallel", "for_each", "repeat"})
"""Types of nodes that own lines: what they wait for is what the steps on those lines wait for."""

MANY: Final = 3
"""Instances that are named; more are counted."""


_PARTS: Final = {"parallel": "branch", "for_each": "item", "repeat": "iteration"}
"""What the lines of a structure node are called."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A node that was left, by an edge or by none.

    Attributes:
        line: Where it stands.
        outcome: Of the step that was left.
        code: Of the failure, its own or what came of there being no edge.
        ended: What the journal says next where no edge was taken: ``failed`` for the instance,
            ``line_ended`` for its line; None when neither failed or ended so.
    """

    node: str | None
    line: str
    outcome: str | None
    code: str | None
    ended: str | None


def why(
    document: Mapping[str, Any],
    edge: Mapping[str, Any],
    left: Departure,
    lines: Mapping[tuple[str, int], str],
) -> str:
    """Returns why an edge was taken, in the words of the document.

    Args:
        document: The published document.
        edge: ``to``, ``by`` and ``index`` as the journal has them.
        left: What it leaves.
        lines: The line that each visit to a node stands on, as far as it is known.
    """
    by, index = edge.get("by"), edge.get("index")
    edges = document.get("edges") or []
    leaving = sum(1 for other in edges if other.get("from") == left.node)
    written = edges[index] if isinstance(index, int) and 0 <= index < len(edges) else {}
    if by == "outcome":
        on = json.dumps(written.get("on", left.outcome), ensure_ascii=False)
        return f"the outcome was {on}{'' if left.code is None else f': {left.code}'}"
    if by == "condition":
        return f"its condition held: {_condition(written.get('when'))}"
    if by == "plain":
        return "the only edge" if leaving == 1 else "no other edge fitted: the plain one"
    if left.code is not None:
        return _failed(document, left, leaving, lines)
    if not leaving:
        return "nothing comes after it"
    return f"{_no_fit(left)}; the line ends here"


def _failed(
    document: Mapping[str, Any],
    left: Departure,
    leaving: int,
    lines: Mapping[tuple[str, int], str],
) -> str:
    """What failed, and what failed with it."""
    types = types_of(document)
    type = types.get(left.node or "")
    if left.outcome == FAILURE:
        what = f"it failed with {left.code}, and no failure edge leads on"
    elif type == "end":
        what = f"it ends the instance as failed, with {left.code}"
    elif type == "decision" and left.code == "no_edge":
        what = f"{_no_fit(left)} ({left.code})"
    else:
        what = f"no edge could be chosen: {left.code}"
    climbed = _climbed(left, types, lines)
    return what if type == "end" or not climbed else f"{what}: {climbed}"


def _no_fit(left: Departure) -> str:
    return f"no edge fits outcome {json.dumps(left.outcome, ensure_ascii=False)}"


def _climbed(
    left: Departure, types: Mapping[str, str], lines: Mapping[tuple[str, int], str]
) -> str:
    """How far a failure got: its line alone, or all that is around it and the instance."""
    around: list[str] = []
    line: str | None = left.line
    while line:
        owner, name = owner_of(line)
        node, _, visit = owner.rpartition(".")
        around.append(f"{_PARTS.get(types.get(node, ''), 'line')} {name} of {node}")
        if left.ended != FAILED:
            break
        line = lines.get((node, int(visit)))
    if left.ended == FAILED:
        around.append("the instance")
    if not around:
        return ""
    first, *others = around
    return f"{first} failed{''.join(f', and with it {other}' for other in others)}"


def waiting_for(
    status: str,
    steps: Sequence[StepView],
    waits: Sequence[WaitView],
    children: Sequence[ChildView],
    document: Mapping[str, Any],
) -> tuple[str, ...]:
    """Returns what has to happen for an instance to go on, a sentence for each thing.

    Args:
        status: The instance's.
        steps: Its step runs.
        waits: Its waits.
        children: What it has started; those that have ended are not waited for.
        document: The published document.
    """
    if status in ENDED:
        return ()
    if status == "pending":
        return ("a worker that begins it",)
    told = ["a resume"] if status == "paused" else []
    ended = frozenset(child.ulid for child in children if child.status in ENDED)
    told += [_wait(wait, ended) for wait in waits if wait.status == "pending"]
    for step in steps:
        if step.type in STRUCTURE:
            continue
        if step.status == "retrying":
            told.append(f"attempt {step.attempt} of {step.node}, due {_time(step.scheduled_for)}")
        elif step.status == "scheduled":
            told.append(_handler(document, step.node))
        elif step.status == "running":
            told.append(f"{step.node}, which runs since {_time(step.started_at)}")
    return tuple(told)


def _handler(document: Mapping[str, Any], node: str) -> str:
    """Who has to come for a step that nobody runs."""
    nodes = document.get("nodes") or []
    found: Mapping[str, Any] = next((one for one in nodes if one.get("id") == node), {})
    config = found.get("config") or {}
    if found.get("type") != "action":
        return f"a worker that goes on with {node}"
    queue = f" on task queue {config['queue']}" if config.get("queue") else ""
    return (
        f"a worker{queue} that has a handler for {config.get('action')} ({node}); asked for again"
        " at least once a minute"
    )


def _wait(wait: WaitView, ended: frozenset[str]) -> str:
    until = "" if wait.due_at is None else f" until {_time(wait.due_at)}"
    if wait.kind == "instances":
        return f"the end of {_instances(wait, ended)}{until} ({wait.node})"
    if wait.kind == "timer":
        return f"the time{until} ({wait.node})"
    named = ", ".join(wait.signals) or wait.event or ""
    fields = f" with {_text(wait.match)}" if wait.match else ""
    condition = f" where {_condition(wait.condition)}" if wait.condition is not None else ""
    related = f" for {wait.correlation}" if wait.correlation is not None else ""
    return f"{wait.kind} {named}{related}{fields}{condition}{until} ({wait.node})"


def _instances(wait: WaitView, ended: frozenset[str]) -> str:
    left = [ulid for ulid in wait.instances if ulid not in ended] or wait.instances
    of = f" of {len(wait.instances)}" if len(left) < len(wait.instances) else ""
    return f"{len(left)}{of} instances" if len(left) > MANY else ", ".join(left)


def _condition(value: Any) -> str:
    """A condition as a reader would say it; what is none is given as JSON."""
    match value:
        case str():
            return value
        case {"all": list(parts)}:
            return f"({' and '.join(map(_condition, parts))})"
        case {"any": list(parts)}:
            return f"({' or '.join(map(_condition, parts))})"
        case {"not": part}:
            return f"not {_condition(part)}"
        case {"field": field, "op": op}:
            return f"{field} {op} {_text(value.get('value', True))}"
    return _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _time(value: datetime | None) -> str:
    return "now" if value is None else value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
