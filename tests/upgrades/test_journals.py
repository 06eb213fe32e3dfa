"""Journals of all recorded versions fold to what they folded to then."""

from __future__ import annotations

import pytest

from adapter.graph.compiled import compile_graph
from adapter.graph.nodes import node_types
from adapter.graph.validation import validate
from adapter.interpreter import entries as kinds
from adapter.interpreter.apply import apply, fold
from adapter.interpreter.snapshots import as_json, from_json
from adapter.interpreter.state import State
from adapter.interpreter.version import CURRENT
from tests.upgrades.recorded import Journal, journals, versions

ALL = {f"{number}/{journal.name}": journal for number in versions() for journal in journals(number)}
WAITS = {"timer", "event", "signal", "instances"}


@pytest.fixture(params=ALL)
def journal(request: pytest.FixtureRequest) -> Journal:
    found: Journal = ALL[request.param]
    return found


def test_a_recorded_journal_folds_to_the_recorded_states(journal: Journal) -> None:
    assert len(journal.entries) in journal.states
    for seq, expected in journal.states.items():
        assert fold(journal.entries[:seq]) == from_json(expected, seq)


def test_every_recorded_entry_is_known_and_counts_one(journal: Journal) -> None:
    state = State()
    for seq, (entry, interpreter) in enumerate(
        zip(journal.entries, journal.interpreters, strict=True), start=1
    ):
        assert entry.kind in kinds.KINDS
        assert interpreter <= CURRENT
        state = apply(state, entry)
        assert state.seq == seq
        assert from_json(as_json(state), seq) == state


def test_a_recorded_snapshot_is_what_was_folded_before_it(journal: Journal) -> None:
    for seq, entry in enumerate(journal.entries, start=1):
        if entry.kind == kinds.SNAPSHOT:
            before = fold(journal.entries[: seq - 1])
            assert from_json(entry.data, seq) == before.evolve()


def test_a_recorded_graph_is_still_valid(journal: Journal) -> None:
    assert [f for f in validate(journal.document) if f.severity == "error"] == []
    assert compile_graph(journal.document).key == journal.document["key"]


def test_the_newest_recording_has_every_kind_of_entry_and_every_type_of_node() -> None:
    newest = journals(versions()[-1])
    entries = [entry for journal in newest for entry in journal.entries]
    entered = {
        node["type"]
        for journal in newest
        for node in journal.document["nodes"]
        if any(entry.node == node["id"] for entry in journal.entries)
    }

    assert {entry.kind for entry in entries} == kinds.KINDS
    assert entered == set(node_types())
    waits = {entry.data["kind"] for entry in entries if entry.kind == kinds.WAIT_OPENED}
    assert waits == WAITS
    assert {i for journal in newest for i in journal.interpreters} == {CURRENT}


def test_a_fold_that_changed_would_be_noticed() -> None:
    changed = 0
    for journal in ALL.values():
        for seq, expected in journal.states.items():
            before = fold(journal.entries[: seq - 1])
            changed += before.evolve() != from_json(expected, seq)
    # The last entry of a journal ends the instance, and the others that were chosen do something.
    assert changed >= len(ALL)
