"""``python -m benchmarks profile``: where the time of a step goes."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import seams
from benchmarks.chains import read_loads
from benchmarks.contenders.contract import Servers
from benchmarks.databases import Databases
from benchmarks.errors import BenchmarkError, NotDurable
from benchmarks.loads import LATENCY, THROUGHPUT, WARM_UP, Load
from benchmarks.machine import machine_facts
from benchmarks.measures import Figure
from benchmarks.profiled import Profiled, Sample
from benchmarks.servers import shared_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.servers import Shared

_REPEATS_ALONE = 5
_SETTLE_SECONDS = 0.3
_NAME = "profile"
_PARTS = {
    "steps": "Milliseconds per step, on the clock of the instance: parts of its turns",
    "server": "Milliseconds per step: what the append's round trip consists of",
    "instances": "Milliseconds per instance: parts of its life",
    "marks": "Milliseconds per instance: spans across these parts",
    "processor": "Milliseconds of processor time per step",
}
_TOTALS = {"steps": "per_step", "instances": "per_instance"}

_HELP = """
Measures where the time of a step goes: one instance alone, and 10 at a time.

The worker and the callers run in this process, with clocks around the product's own functions: \
the append and its round trip, deciding, projecting, the way to the handler thread and back, the \
handler, other statements; and per instance the way through Temporal. PostgreSQL tells what it \
executed and planned (pg_stat_statements; with --own-servers only if it is preloaded there); the \
system tells the processor time of each process.

[bold]How to read it[/bold]

With more than one instance at a time the clock of an instance also runs while others use the \
processor: "round trip" then contains the wait for the event loop. Processor time does not; on a \
busy machine it is the figure to compare.

[bold]Examples[/bold]

python -m benchmarks profile

python -m benchmarks profile --load 1x40 --rounds 10

python -m benchmarks profile --json | tail -n 1

[bold]Output[/bold]

Progress goes to standard error, tables to standard output; with --json the last line of standard \
output is one JSON object. Exit code 0: measured; 1: the benchmark failed; 2: wrong arguments.
"""


def profile(
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load", metavar="LOAD", help="Only this load.", show_default="1x40 and 20x50"
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=100, help="How often each load is measured.")
    ] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="End standard output with one line of JSON.")
    ] = False,
    own_servers: Annotated[
        bool,
        typer.Option(
            "--own-servers",
            help="Use the servers that ALMANAC_DATABASE_URL and ALMANAC_TEMPORAL_ADDRESS name; "
            "databases named almanac_benchmark_* are made there and removed.",
        ),
    ] = False,
) -> None:
    loads = read_loads(load or [LATENCY.name, THROUGHPUT.name])
    console = Console(stderr=True, highlight=False)

    def tell(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    with shared_servers(own=own_servers, counted=True) as shared:
        databases = Databases(shared.database_url)
        try:
            machine = machine_facts() | {"postgresql": databases.facts()}
            url = databases.create(_NAME)
            samples, facts = uvloop.run(_measure(shared, url, loads, rounds, tell))
        except NotDurable as error:
            raise typer.BadParameter(str(error), param_hint="--own-servers") from None
        except BenchmarkError as error:
            tell(f"failed: {error}")
            raise typer.Exit(1) from None
        databases.drop([_NAME])
    machine["load_average_after"] = machine_facts()["load_average"]
    figures = {load.name: _figures(taken) for load, taken in samples.items()}
    _show(figures, facts, machine, rounds)
    if as_json:
        print(json.dumps({"loads": _as_json(figures), **facts, "machine": machine}), flush=True)


profile.__doc__ = _HELP


async def _measure(
    shared: Shared, url: str, loads: list[Load], rounds: int, tell: Callable[[str], None]
) -> tuple[dict[Load, list[Sample]], dict[str, Any]]:
    ledger = seams.Ledger()
    samples: dict[Load, list[Sample]] = {load: [] for load in loads}
    with seams.measured(ledger):
        profiled = Profiled(shared, ledger)
        try:
            tell("setting up and warming up")
            directory = shared.directory / _NAME
            directory.mkdir()
            await profiled.setup(
                Servers(url, shared.temporal_address, shared.temporal_namespace, directory)
            )
            counted = profiled.count_statements(url)
            for load in (WARM_UP, *loads):
                await profiled.run(load)
            for number in range(rounds):
                for load in loads:
                    await asyncio.sleep(_SETTLE_SECONDS)
                    repeats = _REPEATS_ALONE if load.is_alone else 1
                    samples[load].append(await profiled.sample(load, repeats))
                    tell(
                        f"round {number + 1}/{rounds}  {load.name:>7}"
                        f"{samples[load][-1].per_step:8.2f} ms/step in turns"
                    )
            transport = await profiled.empty_statement_ms()
        finally:
            await profiled.teardown()
    return samples, {
        "empty_statement_ms": round(transport, 3),
        "statements_counted": counted,
        "rounds": rounds,
    }


def _figures(samples: list[Sample]) -> dict[str, dict[str, Figure]]:
    """By group and part, over the samples of one load."""
    figures: dict[str, dict[str, Figure]] = {}
    for group in _PARTS:
        taken: list[Mapping[str, float]] = [getattr(sample, group) for sample in samples]
        figures[group] = {part: Figure.of([one[part] for one in taken]) for part in taken[0]}
        if group == "processor":
            figures[group]["all"] = Figure.of([sum(one.values()) for one in taken])
        if total := _TOTALS.get(group):
            figures[group]["all"] = Figure.of([getattr(sample, total) for sample in samples])
    figures["counts"] = {
        "appends_per_step": Figure.of([sample.appends_per_step for sample in samples])
    }
    return figures


def _as_json(figures: Mapping[str, dict[str, dict[str, Figure]]]) -> dict[str, Any]:
    return {
        load: {
            group: {part: figure.as_json() for part, figure in parts.items()}
            for group, parts in groups.items()
        }
        for load, groups in figures.items()
    }


def _show(
    figures: Mapping[str, dict[str, dict[str, Figure]]],
    facts: Mapping[str, Any],
    machine: Mapping[str, Any],
    rounds: int,
) -> None:
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for group, title in _PARTS.items():
        shown = Table(title=title, title_justify="left", min_width=90)
        shown.add_column("part")
        for load in figures:
            shown.add_column(load, justify="right")
        parts = next(iter(figures.values()))[group]
        for part in parts:
            cells = [_cell(groups[group][part]) for groups in figures.values()]
            shown.add_row(part, *cells, style="bold" if part == "all" else None)
        if parts:
            out.print(shown)
    notes = [
        f"Medians of {rounds} rounds (lowest to highest); medians of parts need not add up.",
        *(
            f"{load}: {groups['counts']['appends_per_step'].median:.3f} appends per step"
            for load, groups in figures.items()
        ),
        f"A statement that does nothing takes {facts['empty_statement_ms']} ms there and back, "
        f"a small commit {machine['postgresql']['commit_ms']} ms.",
        f"{machine['cores']} cores, load average {machine['load_average']} before and "
        f"{machine['load_average_after']} after.",
    ]
    if not facts["statements_counted"]:
        notes.append("The server's own part is left out: it has no pg_stat_statements preloaded.")
    for note in notes:
        out.print(note, markup=False, soft_wrap=True)


def _cell(figure: Figure) -> str:
    return f"{figure.median:.3f} ({figure.low:.3f}-{figure.high:.3f})"
