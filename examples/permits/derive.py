"""A workflow graph out of the activities of a log: pure, and the same for the same log.

    trigger -> first -> <activity> -> next -> route -> <activity> -> ... -> done

``first`` chooses the activity of the row that the case is started with, ``next`` waits for the
case's next row and ``route`` chooses its activity. After a case's last row its activity leads to
``done``.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from examples.permits.cases import Activity

ACTION = "permits.record"
OWN_NODES = ("trigger", "first", "next", "route", "done")
MAX_ID = 64
MAX_NAME = 200
MAX_KEY = 100

LATEST = "${ has(steps.next) ? steps.next.output : trigger }"
"""The row at hand: the event that was waited for, or the one that the case was started with."""

IS_LAST = {
    "any": [
        {"field": "steps.next.output.last", "op": "eq", "value": True},
        {"field": "trigger.last", "op": "eq", "value": True},
    ]
}


@dataclass(frozen=True, slots=True)
class Derived:
    """A graph and what its node ids stand for.

    Attributes:
        document: The graph document.
        event: The key of the events that carry the rows after a case's first.
        nodes: The node id of each activity.
    """

    document: dict[str, Any]
    event: str
    nodes: Mapping[str, str]


def derive(name: str, activities: Sequence[Activity]) -> Derived:
    """Returns the graph that replays a log.

    Args:
        name: What the log is called; the graph's key is made of it.
        activities: What the log says about each of its activities.

    Raises:
        InvalidInput: No activity, or two of one name.
    """
    names = [activity.name for activity in activities]
    if not names or len(set(names)) != len(names):
        raise InvalidInput("A graph needs activities, each of another name.")
    nodes = node_ids(names)
    key = definition_key(name)
    event = f"{key}.row"
    # conditions are tried in order, so the common activities come first
    common = sorted(activities, key=lambda activity: (-activity.events, activity.name))
    document = {
        "schema": "roundly.workflows.graph/v1",
        "key": key,
        "name": shortened(name),
        "nodes": [*_own_nodes(event), *(_action(nodes[a.name], a) for a in common)],
        "edges": list(_edges(common, nodes)),
    }
    return Derived(document, event, nodes)


def node_ids(names: Iterable[str]) -> dict[str, str]:
    """A node id for each name: letters, digits and underscores, at most 64, no two alike.

    Names that come out alike are told apart by a number. The ids depend on the set of names only,
    not on their order.
    """
    ids: dict[str, str] = {}
    taken = set(OWN_NODES)
    numbers: dict[str, int] = {}
    for name in sorted(names):
        stem = _stem(name)
        chosen = stem
        while chosen in taken:
            numbers[stem] = numbers.get(stem, 1) + 1
            suffix = f"_{numbers[stem]}"
            chosen = stem[: MAX_ID - len(suffix)] + suffix
        taken.add(chosen)
        ids[name] = chosen
    return ids


def definition_key(name: str) -> str:
    """The key of the definition that replays the log of that name."""
    safe = re.sub(r"[^A-Za-z0-9.]+", "-", _ascii(name)).strip("-.")
    return (safe or "log")[:MAX_KEY].rstrip("-.")


def shortened(name: str) -> str:
    """A name as a graph may carry it: at most 200 characters."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def step_runs(rows: int) -> int:
    """How many step runs a case of so many rows takes.

    Trigger, choice and action for the first row, wait, choice and action for each other, the end.
    """
    return 3 * rows + 1


def literal(text: str) -> str:
    """A text as a template that gives just that text."""
    return text.replace("${", "$${")


def _stem(name: str) -> str:
    safe = re.sub(r"[^a-z0-9]+", "_", _ascii(name).lower()).strip("_")
    if not safe:
        return "activity"
    return (safe if safe[0].isalpha() else f"a_{safe}")[:MAX_ID].rstrip("_")


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _own_nodes(event: str) -> list[dict[str, Any]]:
    match = {"case": "${trigger.case}", "run": "${trigger.run}"}
    return [
        {"id": "trigger", "type": "trigger", "config": {"type": "manual"}},
        {"id": "first", "type": "decision", "name": "Which activity begins?"},
        {
            "id": "next",
            "type": "wait",
            "name": "Wait for the next row",
            "config": {"event": event, "match": match},
        },
        {"id": "route", "type": "decision", "name": "Which activity is next?"},
        {"id": "done", "type": "end", "name": "Case closed"},
    ]


def _action(node: str, activity: Activity) -> dict[str, Any]:
    return {
        "id": node,
        "type": "action",
        "name": shortened(activity.name),
        "config": {"action": ACTION, "input": {"row": LATEST}},
    }


def _edges(activities: Sequence[Activity], nodes: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    yield {"from": "trigger", "to": "first"}
    yield {"from": "next", "to": "route"}
    starts = sorted(activities, key=lambda activity: (-activity.starts, activity.name))
    for activity in starts:
        if activity.starts:
            yield _choice("first", "trigger.activity", activity.name, nodes)
    for activity in activities:
        yield _choice("route", "steps.next.output.activity", activity.name, nodes)
    for activity in activities:
        node = nodes[activity.name]
        if activity.ends:
            yield {"from": node, "to": "done", "when": IS_LAST}
        yield {"from": node, "to": "next"}


def _choice(node: str, field: str, name: str, nodes: Mapping[str, str]) -> dict[str, Any]:
    condition = {"field": field, "op": "eq", "value": literal(name)}
    return {"from": node, "to": nodes[name], "when": condition}
