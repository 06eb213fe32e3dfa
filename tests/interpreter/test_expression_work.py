from __future__ import annotations

from typing import Any

from adapter.interpreter.events import Arrived, Tick
from adapter.interpreter.state import State
from tests.execution.runtime import chain, graph
from tests.interpreter.random_graphs import World
from tests.interpreter.test_decider_properties import answer

ROWS = {"l": list(range(2_500))}
HEAVY = "trigger.l.map(x, x).size()"


def begun(document: dict[str, Any]) -> tuple[World, State]:
    world = World.of(document, ROWS)
    start = Arrived(world.draw(), "start", {"snapshot": "1:1:"})
    return world, answer(world, State(), start).state


def setting(node: str, count: int) -> dict[str, Any]:
    values = {f"v{n}": f"${{ {HEAVY} + {n} }}" for n in range(count)}
    return {"id": node, "type": "set", "config": {"values": values}}


def test_a_decision_whose_conditions_are_too_much_work_together_fails() -> None:
    edges: list[Any] = [("trigger", "d")]
    edges += [{"from": "d", "to": "e", "when": f"{HEAVY} < -{n}"} for n in range(80)]
    ends = [{"id": "d", "type": "decision", "config": {}}, {"id": "e", "type": "end", "config": {}}]
    _, state = begun(graph(*ends, edges=[*edges, ("d", "e")]))
    assert (state.status, state.current) == ("failed", "d")


def test_a_node_whose_values_are_too_much_work_together_fails() -> None:
    _, state = begun(chain(setting("s", 80)))
    assert (state.status, state.current) == ("failed", "s")


def test_much_work_in_many_nodes_is_spread_over_decisions_and_ends_well() -> None:
    world, state = begun(chain(*(setting(f"s{n}", 2) for n in range(12))))
    decisions = 1
    while not state.ended:
        state = answer(world, state, Tick()).state
        decisions += 1
    assert state.status == "completed"
    assert decisions > 3


def test_a_condition_that_costs_too_much_for_one_event_does_not_hold_and_stops_no_other() -> None:
    config = {"event": "sent", "condition": "event.l.map(x, x).size() >= 0"}
    document = chain({"id": "w", "type": "wait", "config": config})
    world, state = begun(document)
    for rows in ([*range(2_500)], [*range(2_400)], [1]):
        world.events(state, "event", 0)
        event = world.stored.pop()
        world.stored.append(type(event)(event.id, {"l": rows}, event.at))
    state = answer(world, state, Tick()).state
    assert state.status == "completed"
    assert state.consumed == {world.stored[2].id}
