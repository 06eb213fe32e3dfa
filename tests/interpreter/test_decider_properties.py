from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import apply, fold
from adapter.interpreter.decide import Decision, decide
from adapter.interpreter.draft import MAX_PASSES
from adapter.interpreter.entries import Entry
from adapter.interpreter.events import Arrived, Event
from adapter.interpreter.projection import project
from adapter.interpreter.snapshots import as_json, from_json
from adapter.interpreter.state import State
from tests.interpreter.random_graphs import MOVES, PAYLOADS, World, documents

SUCCEEDS = {kinds.STEP_SUCCEEDED, kinds.STEP_PASSED, kinds.WAIT_FIRED, kinds.WAIT_TIMED_OUT}


def answer(world: World, state: State, event: Event) -> Decision:
    """Asks until nothing is missing, as a turn does."""
    for _ in range(10):
        decision = decide(world.graph, state, event, world.env())
        if decision.complete:
            break
        assert decision.entries == ()
        world.outputs |= dict.fromkeys(decision.needs.outputs)
        world.inputs |= {key: {} for key in decision.needs.inputs}
    assert decision.complete
    for entry in decision.entries:
        if entry.step is not None and "output" in entry.row:
            world.outputs[entry.step] = entry.row["output"]
        if entry.step is not None and "call" in entry.row:
            world.inputs[entry.step] = entry.row["call"]
        if entry.step is not None and "config" in entry.data:
            world.inputs[entry.step] = entry.data["config"]
    return decision


def run(world: World, moves: list[tuple[str, int]]) -> list[tuple[State, Decision]]:
    state = State()
    taken: list[tuple[State, Decision]] = []
    events: list[Event] = [Arrived(world.draw(), "start", {"snapshot": "1:1:"})]
    for move, pick in [("start", 0), *moves]:
        for event in events if move == "start" else world.events(state, move, pick):
            decision = answer(world, state, event)
            taken.append((state, decision))
            state = decision.state
    return taken


@settings(max_examples=300, deadline=None)
@given(documents(), PAYLOADS, MOVES)
def test_any_history_of_any_graph_folds_to_the_state_that_was_decided(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    journal: list[Entry] = []
    for before, decision in run(World.of(document, trigger), moves):
        journal += decision.entries
        assert fold(decision.entries, before) == decision.state
        assert decision.state.seq == before.seq + len(decision.entries)
        assert len(decision.entries) <= 4 * MAX_PASSES
    assert fold(journal) == decision.state


@settings(max_examples=150, deadline=None)
@given(documents(), PAYLOADS, MOVES)
def test_no_visit_succeeds_twice_and_nothing_happens_after_the_end(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    succeeded: set[Any] = set()
    visits: dict[Any, tuple[str, int]] = {}
    for before, decision in run(World.of(document, trigger), moves):
        for entry in decision.entries:
            assert not before.ended or entry.kind == kinds.INBOX_APPLIED
            if entry.step is not None and "visit" in entry.data:
                visits[entry.step] = (str(entry.node), entry.data["visit"])
            if entry.kind in SUCCEEDS:
                assert visits[entry.step] not in succeeded
                succeeded.add(visits[entry.step])


@settings(max_examples=150, deadline=None)
@given(documents(), PAYLOADS, MOVES)
def test_a_snapshot_stands_for_all_that_came_before_it(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    for _, decision in run(World.of(document, trigger), moves):
        state = decision.state
        snapshot = Entry(kinds.SNAPSHOT, data=as_json(state))
        assert apply(State(seq=state.seq), snapshot) == apply(state, snapshot)
        assert from_json(as_json(state), state.seq) == state


@settings(max_examples=150, deadline=None)
@given(documents(), PAYLOADS, MOVES)
def test_the_open_rows_of_the_projection_are_the_open_steps_and_waits_of_the_state(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    steps: dict[Any, str] = {}
    waits: dict[Any, str] = {}
    for before, decision in run(World.of(document, trigger), moves):
        changes = project(before, decision.entries, decision.state, ulid="u", writer="w")
        for rows, known in ((changes.steps, steps), (changes.waits, waits)):
            for key, row in rows.items():
                assert row.new is (key not in known)
                known[key] = row.columns.get("status", known.get(key, ""))
        open_now = {"scheduled", "retrying", "running", "waiting"}
        assert {k for k, s in steps.items() if s in open_now} == set(decision.state.steps)
        assert {k for k, s in waits.items() if s == "pending"} == set(decision.state.waits)
        for key, step in decision.state.steps.items():
            assert steps[key] == step.status


def test_an_entry_of_a_kind_that_is_not_known_moves_the_state_on_and_changes_nothing_else() -> None:
    state = apply(State(), Entry("from_the_future", "n", 1, {"visit": 1}))
    assert state == State(seq=1)
