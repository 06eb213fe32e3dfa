"""Random graph documents and random histories, for properties that hold for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from adapter.graph.compiled import Graph, compile_graph
from adapter.interpreter.children import Definition, Ended, EndedStatus
from adapter.interpreter.env import Bounds, Env, Facts, Policy
from adapter.interpreter.events import (
    Arrived,
    Event,
    Failure,
    Finished,
    StoredEvent,
    TakeOver,
    Tick,
)

if TYPE_CHECKING:
    from adapter.interpreter.state import Key, State, Wait

BEGIN = datetime(2026, 5, 4, 10, tzinfo=UTC)

EXPRESSIONS = [
    "trigger.amount",
    "trigger.amount * 1.5",
    "state.count + 1",
    "steps.n1.output.n",
    "steps.missing.output",
    "1 / 0",
    "[1, 2, 3].map(x, x * 2)",
    "'a' + 'b'",
]
CONDITIONS: list[Any] = [
    {"field": "trigger.amount", "op": "gt", "value": 100},
    {"field": "state.count", "op": "lt", "value": 3},
    {"not": {"field": "steps.n1.outcome", "op": "eq", "value": "success"}},
    "trigger.amount > 10",
    "steps.n1.output.n == 1",
    "1 / 0 == 1",
]


def _config(draw: st.DrawFn, node_type: str) -> dict[str, Any]:
    value = draw(st.sampled_from([f"${{ {e} }}" for e in EXPRESSIONS] + ["plain", 7, None]))
    match node_type:
        case "action":
            name = draw(st.sampled_from(["known", "known", "known", "elsewhere"]))
            return {"action": name, "input": {"value": value}}
        case "decision":
            on = draw(st.sampled_from([None, "${ 'left' }", "${ trigger.side }"]))
            return {} if on is None else {"on": on}
        case "set":
            return {"values": {"count": value}}
        case "delay":
            return {"for": draw(st.sampled_from(["PT0S", "PT1S", "PT1H", "${ trigger.span }"]))}
        case "wait":
            config: dict[str, Any] = {"event": draw(st.sampled_from(["paid", "sent"]))}
            if draw(st.booleans()):
                config["match"] = {"id": value}
            if draw(st.booleans()):
                config["timeout"] = draw(st.sampled_from(["PT1S", "PT2H"]))
            if draw(st.booleans()):
                config["condition"] = draw(st.sampled_from(["event.ok == true", "event.nope"]))
            return config
        case _:
            status = draw(st.sampled_from(["completed", "failed", "cancelled"]))
            return {"status": status, "output": value}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Graphs that compile; they need not be sensible, and many could not be published."""
    count = draw(st.integers(1, 7))
    types = ["action", "action", "decision", "set", "delay", "wait", "wait", "end"]
    nodes: list[dict[str, Any]] = [
        {"id": "trigger", "type": "trigger", "config": {"type": "manual"}}
    ]
    for n in range(1, count + 1):
        node_type = draw(st.sampled_from(types))
        node = {"id": f"n{n}", "type": node_type, "config": _config(draw, node_type)}
        if node_type == "action" and draw(st.booleans()):
            node["retry"] = {"max_attempts": draw(st.integers(1, 3)), "initial": "PT1S"}
        nodes.append(node)
    ids = [f"n{n}" for n in range(1, count + 1)]
    edges: list[dict[str, Any]] = [{"from": "trigger", "to": "n1"}]
    for node in nodes[1:]:
        if node["type"] == "end":
            continue
        for _ in range(draw(st.integers(0, 3))):
            edge = {"from": node["id"], "to": draw(st.sampled_from(ids))}
            how = draw(st.sampled_from(["plain", "on", "when"]))
            if how == "on":
                edge["on"] = draw(st.sampled_from(["success", "failure", "timed_out", "left"]))
            elif how == "when":
                edge["when"] = draw(st.sampled_from(CONDITIONS))
            edges.append(edge)
    return {
        "schema": "roundly.workflows.graph/v1",
        "key": "random",
        "name": "Random",
        "nodes": nodes,
        "edges": edges,
    }


PAYLOADS = st.fixed_dictionaries(
    {"amount": st.sampled_from([1, 50, 200, 200.5]), "side": st.sampled_from(["left", "right"])},
    optional={"span": st.sampled_from(["PT5S", "nonsense", 3])},
)

MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "finish",
                "finish",
                "fail",
                "fatal",
                "late",
                "tick",
                "later",
                "event",
                "take_over",
                "held",
                "again",
                "odd",
            ]
        ),
        st.integers(0, 5),
    ),
    max_size=30,
)


class _Statuses(dict[str, str]):
    """How every instance stands that anybody could ask for."""

    def __init__(self, ended: dict[str, Ended]) -> None:
        super().__init__({f"{n:026}": "running" for n in range(600)})
        self.update({ulid: one.status for ulid, one in ended.items()})


@dataclass(slots=True)
class World:
    """What surrounds a decider in these tests: a clock, ids, stored events."""

    graph: Graph
    trigger: Any
    now: datetime = BEGIN
    ids: int = 0
    turn: int = 0
    begin: bool = True
    stored: list[StoredEvent] = field(default_factory=list)
    outputs: dict[Key, Any] = field(default_factory=dict)
    inputs: dict[Key, Any] = field(default_factory=dict)
    worker: str = "worker-1"
    random: float = 0.0
    bounds: Bounds = field(default_factory=lambda: Bounds(max_steps=60))
    policies: dict[str, Policy] = field(default_factory=lambda: {"known": Policy()})
    payloads: dict[Key, Any] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    definitions: dict[str, Definition | None] = field(
        default_factory=lambda: {"other": Definition(1, 1, "system"), "nothing": None}
    )
    activities: bool = False

    @classmethod
    def of(cls, document: dict[str, Any], trigger: Any) -> World:
        return cls(compile_graph(document), trigger)

    @property
    def writer(self) -> str:
        return f"turn-{self.turn}"

    def draw(self) -> int:
        self.ids += 1
        return self.ids

    def env(self) -> Env:
        return Env(
            facts=Facts("01J00000000000000000000000", self.trigger, None, {"id": "x", "key": "k"}),
            now=self.now,
            writer=self.writer,
            worker=self.worker,
            step_id=self.draw,
            wait_id=self.draw,
            begin=self.begin,
            bounds=self.bounds,
            policies=self.policies,
            outputs=self.outputs,
            inputs=self.inputs,
            stored=self.stored_for,
            random=self.random,
            child_id=self.draw,
            ulid=lambda: f"{self.draw():026}",
            payloads=self.payloads,
            ended=self.ended,
            definitions=self.definitions,
            activities=self.activities,
            statuses=_Statuses(self.ended),
        )

    def stored_for(self, wait: Wait) -> list[StoredEvent]:
        match = dict(wait.match or {})
        return [e for e in self.stored if all(e.payload.get(k) == v for k, v in match.items())]

    def signal(self, name: str, payload: Any, correlation: str | None = None) -> Arrived:
        """An inbox row that brings a signal."""
        row = {"name": name, "payload": payload, "correlation": correlation}
        arrived = Arrived(self.draw(), "signal", row)
        self.payloads[arrived.id] = row
        return arrived

    def events(self, state: State, move: str, pick: int) -> list[Event]:
        """The events that a move of a random history stands for."""
        self.begin = move != "held"
        running = [step for step in state.steps.values() if step.status == "running"]
        step = running[pick % len(running)] if running else None
        match move:
            case "finish" | "fail" | "fatal" if step is not None:
                failure = None if move == "finish" else Failure("boom", "boom", move == "fail")
                token = step.token or ""
                return [Finished(step.id, token, {"n": pick}, failure), Tick()]
            case "late" if step is not None:
                return [Finished(step.id, "another turn", {"n": pick}), Tick()]
            case "odd":
                return [Finished(10_000 + pick, self.writer, None), Arrived(9_000 + pick, "dance")]
            case "later":
                self.now += timedelta(seconds=[0, 1, 5, 3_600, 10_000, 90_000][pick])
                return [Tick()]
            case "take_over":
                self.turn += 1
                return [TakeOver(frozenset({self.worker} if pick % 2 else set())), Tick()]
            case "again":
                return [Arrived(self.draw(), "start", {"snapshot": None})]
            case _:
                return [*self.arrivals(state, move, pick), Tick()]

    def arrivals(self, state: State, move: str, pick: int) -> list[Event]:
        """Inbox rows that others have written."""
        match move:
            case "event":
                payload = {"ok": pick % 2 == 0, "id": "plain"}
                self.stored.append(StoredEvent(self.draw(), payload, self.now))
                return [Arrived(self.draw(), "event", None, self.stored[-1].id)]
            case "signal":
                return [self.signal(["go", "stop"][pick % 2], {"n": pick}, f"c{pick}")]
            case "child":
                ulids = [u for wait in state.waits.values() for u in wait.instances]
                return [self.end(ulids[pick % len(ulids)], pick < 4)] if ulids else []
            case "cancel":
                return [Arrived(self.draw(), move, {})] if pick == 0 else []
            case "pause" | "resume" | "retry":
                return [Arrived(self.draw(), move, {})]
            case _:
                return []

    def end(self, ulid: str, well: bool) -> Arrived:
        """Another instance ends, and tells of it."""
        status: EndedStatus = "completed" if well else "failed"
        self.ended[ulid] = Ended(ulid, status, {"n": 1}, 7, read=True)
        return Arrived(self.draw(), "child", {"ulid": ulid})
