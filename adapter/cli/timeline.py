"""An instance for people: what it is, its steps, its way through the graph, what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from adapter.cli.output import cell, moment, plain, print_json, shorten, stdout, table

if TYPE_CHECKING:
    from adapter.services.views import InstanceView, Reference, StepView


def print_instance(view: InstanceView, *, as_json: bool) -> None:
    """Prints an instance with its timeline."""
    if as_json:
        print_json(view.as_json())
        return
    console = stdout()
    console.print(_facts(view))
    if view.steps:
        console.print()
        console.print(_steps(view))
    if view.edges:
        console.print()
        console.print(_way(view))
    for sentence in view.waiting_for:
        console.print(f"waits for {plain(sentence)}", style="yellow", markup=False)
    if view.failure is not None:
        where = "" if view.failure.node is None else f" at {view.failure.node}"
        told = f"failed{where}: {view.failure.code}: {view.failure.message or ''}"
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


def _steps(view: InstanceView) -> Table:
    listed = table("node", "type", "#", "status*", "outcome", "started*", "took", "output or error")
    for step in view.steps:
        number = f"{step.visit}" if step.attempt == 1 else f"{step.visit}.{step.attempt}"
        told = shorten(step.output)
        if step.error_code is not None:
            told = shorten(f"{step.error_code}: {step.error_message or ''}", 120)
        listed.add_row(
            cell(step.node),
            cell(step.type),
            cell(number),
            cell(step.status),
            cell(step.outcome),
            cell(moment(step.started_at)),
            cell(_took(step)),
            cell(told),
        )
    return listed


def _way(view: InstanceView) -> Table:
    listed = table("from", "to", "because")
    for edge in view.edges:
        listed.add_row(cell(edge.node), cell(edge.to or "-"), cell(edge.why))
    return listed


def _took(step: StepView) -> str:
    if step.started_at is None or step.finished_at is None:
        return ""
    seconds = (step.finished_at - step.started_at).total_seconds()
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _named(reference: Reference | None) -> str:
    return "" if reference is None else f"{reference.type}:{reference.id}"
