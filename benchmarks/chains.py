"""``python -m benchmarks chains``: chains of steps on Almanac and on its peers, in one run."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import report
from benchmarks.contenders import CONTENDERS
from benchmarks.databases import Databases
from benchmarks.errors import NotDurable
from benchmarks.loads import STANDARD, Load
from benchmarks.machine import machine_facts
from benchmarks.rounds import Rounds
from benchmarks.servers import shared_servers

_HELP = """
Measures chains of sequential steps on Almanac and on its peers: one run, one machine, the same \
servers.

Every step is an async handler that awaits once and returns {"n": i}; every chain returns the sum, \
which is checked. Each contender has a process of its own, is warmed up, and then they take turns, \
load by load and round by round, so that what else the machine does meets all of them alike.

[bold]Contenders[/bold] (--only NAME, repeatable)

CONTENDERS

[bold]Loads[/bold] (--load LOAD, repeatable)

[bold]1x40[/bold]: one chain of 40 steps, alone: latency per step.

[bold]100x10[/bold]: 100 chains of 10 steps, 50 at once: many short chains.

[bold]20x50[/bold]: 20 chains of 50 steps, 10 at once: throughput.

CHAINSxSTEPS@AT_ONCE: any other.

[bold]Examples[/bold]

python -m benchmarks chains

python -m benchmarks chains --rounds 2 --load 20x50

python -m benchmarks chains --only almanac --only dbos --json | tail -n 1

[bold]Output[/bold]

Progress goes to standard error, the table to standard output; with --json the last line of \
standard output is one JSON object. Exit code 0: every contender was measured, or left out because \
it is not installed; 1: one failed or returned wrong results; 2: wrong arguments. Run it where \
nothing else runs.
""".replace(
    "CONTENDERS",
    "\n\n".join(f"[bold]{name}[/bold]: {entry.about}" for name, entry in CONTENDERS.items()),
)


def chains(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this contender.")
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option("--load", metavar="LOAD", help="Only this load.", show_default="all three"),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=100, help="How often each load is measured.")
    ] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="End standard output with one line of JSON.")
    ] = False,
    kept_temporal: Annotated[
        bool,
        typer.Option(
            "--kept-temporal",
            help="Run Temporal as `almanac dev` does (state in a file, task queues read without "
            "delay), not as `temporal server start-dev` comes.",
        ),
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
    contenders = _contenders(only)
    loads = read_loads(load)
    console = Console(stderr=True, highlight=False)

    def tell(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    with shared_servers(own=own_servers, kept=kept_temporal) as shared:
        databases = Databases(shared.database_url)
        try:
            machine = machine_facts() | {"postgresql": databases.facts()}
        except NotDurable as error:
            raise typer.BadParameter(str(error), param_hint="--own-servers") from None
        tell(
            f"{machine['cores']} cores, load average {machine['load_average']}, "
            f"one commit {machine['postgresql']['commit_ms']} ms"
        )
        run = Rounds(shared, databases, loads, rounds, tell).measure(contenders)

    machine["load_average_after"] = machine_facts()["load_average"]
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    out.print(report.table(run, loads, rounds))
    for note in report.notes(run):
        out.print(note, markup=False, soft_wrap=True)
    if as_json:
        print(json.dumps(report.as_json(run, machine)), flush=True)
    raise typer.Exit(1 if run.failed or not run.results.seconds else 0)


chains.__doc__ = _HELP


def _contenders(only: list[str] | None) -> list[str]:
    for name in only or ():
        if name not in CONTENDERS:
            raise typer.BadParameter(
                f"{name!r} is no contender: choose among {', '.join(CONTENDERS)}",
                param_hint="--only",
            )
    return [name for name in CONTENDERS if not only or name in only]


def read_loads(names: list[str] | None) -> list[Load]:
    """Reads what ``--load`` names; the standard loads if it names none."""
    try:
        chosen = [Load.parse(name) for name in names or STANDARD]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--load") from None
    return list(dict.fromkeys(chosen))
