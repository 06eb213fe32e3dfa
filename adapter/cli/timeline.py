"""An instance for people: what it is, its steps, its way through the graph, what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rich.padding import Padding
from rich.table import Table

from adapter.cli.columns import Column, listing, stamp
from adapter.cli.output import cell, coded, moment, plain, print_json, shorten, stdout
from adapter.cli.steps import steps_of
from adapter.cli.told import what_was_told
from adapter.cli.tree import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from adapter.services.explaining import WhyView
    from adapter.services.views import (
        EdgeView,
        InboxView,
        InstanceView,
        Reference,
        SignalView,
        StopView,
    )

T = TypeVar("T")

SENTENCES = 10
"""Things waited for, commands and signals that are told; more are counted."""


def print_instance(
    view: InstanceView, *, as_json: bool, choices: Sequence[WhyView] | None = None
) -> None:
    """Prints an instance with its timeline; with ``choices`` also what conditions compared."""
    if as_json:
        why = {} if choices is None else {"why": [choice.as_json() for choice in choices]}
        print_json({**view.as_json(), **why})
        return
    console = stdout()
    console.print(_facts(view))
    tree = tree_of(view)
    if tree:
        console.print()
        console.print(steps_of(tree, console.width))
    shown = {"", *(branch.line for branch in tree)}
    if any(edge.line in shown for edge in view.edges):
        console.print()
        console.print(_way(view, shown, console.width))
    if choices is not None:
        console.print()
        _why(console, choices)
    if view.commands:
        console.print()
        console.print(_commands(view.commands, console.width))
    if view.signals:
        console.print()
        console.print(_signals(view.signals, console.width))
    _standing(console, view)


def _standing(console: Console, view: InstanceView) -> None:
    """Prints what it waits for, or why it stopped."""
    for sentence in view.waiting_for[:SENTENCES]:
        console.print(f"waits for {plain(sentence)}", style="yellow", markup=False)
    if (left := len(view.waiting_for) - SENTENCES) > 0:
        console.print(f"waits for {left} more", style="yellow", markup=False)
    if view.stopped is not None:
        console.print(plain(_stopped(view.status, view.stopped)), style="yellow", markup=False)
    if view.failure is not None:
        where = "" if view.failure.node is None else f" at {view.failure.node}"
        told = f"{view.status}{where}: {coded(view.failure.code, view.failure.message)}"
        console.print(plain(told), style="red", markup=False)


def _facts(view: InstanceView) -> Table:
    facts = Table.grid(padding=(0, 2))
    trigger = view.trigger_type + (f" {view.trigger_key}" if view.trigger_key else "")
    rows = {
        "instance": view.ulid,
        "definition": f"{view.key} version {view.version}",
        "status": view.status,
        "node": view.current_node,
        "owner": _named(view.owner),
        "subject": _named(view.subject),
        "parent": view.parent,
        "started by": _named(view.starter),
        "trigger": trigger,
        "payload": shorten(view.trigger_payload, 200),
        "created": moment(view.created_at),
        "started": moment(view.started_at),
        "ended": moment(view.ended_at),
        "steps": str(view.steps_count),
    }
    for name, value in rows.items():
        if value:
            facts.add_row(cell(name), cell(value))
    return facts


def _way(view: InstanceView, shown: set[str], width: int) -> Table:
    columns: list[Column[EdgeView]] = [
        Column("from", _left, least=10),
        Column("to", lambda edge: edge.to or "-", least=10),
        Column("because", lambda edge: edge.why, least=20),
    ]
    return listing(columns, [edge for edge in view.edges if edge.line in shown], width)


def _left(edge: EdgeView) -> str:
    where = f"{edge.line.partition(':')[2]}: " if edge.line else ""
    return f"{where}{edge.node}"


_RESULTS = {True: "yes", False: "no", None: "failed"}


def _why(console: Console, choices: Sequence[WhyView]) -> None:
    """Prints each choice between conditions: a line for each comparison that decided one."""
    if not choices:
        console.print("no edge was chosen by conditions")
    for choice in choices:
        where = f"{choice.line.partition(':')[2]}: " if choice.line else ""
        taken = f"to {choice.to}" if choice.to else "no edge was taken"
        by = {"plain": ", by the plain edge"}.get(choice.by, "")
        console.print(cell(f"why {where}{choice.node}: {taken}{by}"), style="bold")
        for test in choice.tests:
            for because in test.because:
                told = cell(f"{_RESULTS[test.holds]:<6} to {test.to}: {because}")
                console.print(Padding(told, (0, 0, 0, 2)))
        if choice.note is not None:
            console.print(Padding(cell(choice.note), (0, 0, 0, 2)), style="yellow")


def _commands(commands: Sequence[InboxView], width: int) -> Table:
    columns: list[Column[InboxView]] = [
        Column("not applied yet", lambda row: row.kind, least=8),
        Column("what", what_was_told, least=12),
        Column("sender", lambda row: row.sender, least=8),
        Column("sent", lambda row: stamp(row.created_at, width), whole=True),
    ]
    return _some(columns, commands, width)


def _signals(signals: Sequence[SignalView], width: int) -> Table:
    columns: list[Column[SignalView]] = [
        Column("signal kept", lambda signal: signal.name, least=8),
        Column("correlation", lambda signal: signal.correlation, least=8),
        Column("payload", lambda signal: shorten(signal.payload), least=12),
        Column("sender", lambda signal: signal.sender, least=8),
        Column("sent", lambda signal: stamp(signal.created_at, width), whole=True),
    ]
    if all(signal.correlation is None for signal in signals):
        del columns[1]
    return _some(columns, signals, width)


def _some(columns: Sequence[Column[T]], rows: Sequence[T], width: int) -> Table:
    """The first rows; the others are counted."""
    listed = listing(columns, rows[:SENTENCES], width)
    if (left := len(rows) - SENTENCES) > 0:
        listed.add_row(cell(f"and {left} more"))
    return listed


def _stopped(status: str, stop: StopView) -> str:
    by = "" if stop.sender is None else f" by {stop.sender}"
    return f"{status}{by} at {moment(stop.at)}{'' if stop.reason is None else f': {stop.reason}'}"


def _named(reference: Reference | None) -> str:
    return "" if reference is None else f"{reference.type}:{reference.id}"
