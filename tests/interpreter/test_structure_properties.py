from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings

from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import apply, fold
from adapter.interpreter.entries import Entry
from adapter.interpreter.events import Arrived, Event, Finished, StoredEvent, Tick
from adapter.interpreter.projection import project
from adapter.interpreter.snapshots import as_json, from_json
from adapter.interpreter.state import State
from adapter.interpreter.structure import owner_of
from tests.interpreter.random_graphs import PAYLOADS, World
from tests.interpreter.random_structures import STRUCTURED_MOVES, structured_documents
from tests.interpreter.test_decider_properties import SUCCEEDS, answer, run

OPEN = {"scheduled", "retrying", "running", "waiting"}


def world_of(document: dict[str, Any], trigger: dict[str, Any]) -> World:
    return World.of(document, {**trigger, "amount": int(trigger["amount"])})


@settings(max_examples=400, deadline=None)
@given(structured_documents(), PAYLOADS, STRUCTURED_MOVES)
def test_any_history_folds_to_the_state_that_was_decided(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    journal: list[Entry] = []
    for before, decision in run(world_of(document, trigger), moves):
        journal += decision.entries
        assert fold(decision.entries, before) == decision.state
        state = decision.state
        snapshot = Entry(kinds.SNAPSHOT, data=as_json(state))
        assert apply(State(seq=state.seq), snapshot) == apply(state, snapshot)
        assert from_json(as_json(state), state.seq) == state
    assert fold(journal) == decision.state


@settings(max_examples=400, deadline=None)
@given(structured_documents(), PAYLOADS, STRUCTURED_MOVES)
def test_lines_scopes_and_steps_hang_together(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    for _, decision in run(world_of(document, trigger), moves):
        state = decision.state
        lines = [step.line for step in state.steps.values()]
        assert len(lines) == len(set(lines)), "a line has one step at a time"
        for line in [*state.lines, *lines]:
            assert line == "" or owner_of(line)[0] in state.scopes
        for scope in state.scopes.values():
            assert state.steps[scope.step].status == "waiting"
            assert scope.line == state.steps[scope.step].line
            assert scope.begun - len(scope.done) >= 0 or scope.kind == "repeat"
        if state.ended:
            assert not any((state.steps, state.waits, state.scopes, state.lines))
        elif state.status != "pending":
            assert state.steps, "an instance that has not ended has somewhere to go on from"
            here = {line for line in lines if line}
            assert here == set(state.lines), "every open line has a step"


@settings(max_examples=300, deadline=None)
@given(structured_documents(), PAYLOADS, STRUCTURED_MOVES)
def test_no_visit_succeeds_twice_and_an_end_is_left_by_a_retry_alone(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    succeeded: set[Any] = set()
    visits: dict[Any, tuple[str, int]] = {}
    attempts: set[Any] = set()
    for before, decision in run(world_of(document, trigger), moves):
        if before.ended and decision.entries:
            assert decision.entries[0].kind in (kinds.INBOX_APPLIED, kinds.RETRIED)
        for entry in decision.entries:
            data = entry.data
            if entry.step is not None and "visit" in data and entry.step not in visits:
                visits[entry.step] = (str(entry.node), data["visit"])
                attempt = (*visits[entry.step], data.get("attempt", 1))
                assert attempt not in attempts
                attempts.add(attempt)
            ends = entry.kind in SUCCEEDS
            if ends or (entry.kind == kinds.SCOPE_CLOSED and "code" not in data):
                assert visits[entry.step] not in succeeded
                succeeded.add(visits[entry.step])


@settings(max_examples=300, deadline=None)
@given(structured_documents(), PAYLOADS, STRUCTURED_MOVES)
def test_the_rows_say_what_the_state_says(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    steps: dict[Any, str] = {}
    waits: dict[Any, str] = {}
    for before, decision in run(world_of(document, trigger), moves):
        changes = project(before, decision.entries, decision.state, ulid="u", writer="w")
        for rows, known in ((changes.steps, steps), (changes.waits, waits)):
            for key, row in rows.items():
                assert row.new is (key not in known)
                known[key] = row.columns.get("status", known.get(key, ""))
        assert {k for k, s in steps.items() if s in OPEN} == set(decision.state.steps)
        assert {k for k, s in waits.items() if s == "pending"} == set(decision.state.waits)
        if decision.entries:
            assert changes.instance["status"] == decision.state.status


@settings(max_examples=200, deadline=None)
@given(structured_documents(), PAYLOADS, STRUCTURED_MOVES)
def test_every_inbox_row_is_answered_once(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    answered: list[Any] = []
    for before, decision in run(world_of(document, trigger), moves):
        answered += [e.data["inbox"] for e in decision.entries if "inbox" in e.data]
        changes = project(before, decision.entries, decision.state, ulid="u", writer="w")
        assert set(changes.inbox) == {
            e.data["inbox"] for e in decision.entries if "inbox" in e.data
        }
    assert len(answered) == len(set(answered))


def what_helps(world: World, state: State) -> list[Event]:
    """What the world outside may do for an instance that still goes on."""
    if state.paused:
        return [Arrived(world.draw(), "resume", {})]
    running = [step for step in state.steps.values() if step.status == "running"]
    if running:
        return [Finished(running[0].id, running[0].token or "", {"n": 1})]
    world.now += timedelta(days=1)
    world.stored.append(StoredEvent(world.draw(), {"ok": True}, world.now))
    named = {name for wait in state.waits.values() for name in wait.signals}
    correlations = {wait.correlation for wait in state.waits.values()}
    signals = [
        world.signal(name, {"n": n}, correlation)
        for name in sorted(named)
        for n in (1, 3)
        for correlation in sorted(correlations, key=str)
    ]
    ulids = [u for wait in state.waits.values() for u in wait.instances]
    ends = [world.end(ulid, True) for ulid in ulids if ulid not in world.ended]
    return [*signals, *ends, Tick()]


@settings(max_examples=300, deadline=None)
@given(structured_documents(), PAYLOADS, STRUCTURED_MOVES)
def test_whatever_has_happened_an_instance_can_come_to_its_end(
    document: dict[str, Any], trigger: dict[str, Any], moves: list[tuple[str, int]]
) -> None:
    world = world_of(document, trigger)
    state = run(world, moves)[-1][1].state
    world.begin = True
    for _ in range(400):
        if state.ended:
            break
        for event in what_helps(world, state):
            state = answer(world, state, event).state
    assert state.ended, state
