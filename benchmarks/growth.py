"""``python -m benchmarks growth``: what a step costs when the tables hold a long past."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks import filling
from benchmarks.contenders import ALMANAC
from benchmarks.contenders.contract import Servers
from benchmarks.databases import Databases
from benchmarks.errors import BenchmarkError, NotDurable
from benchmarks.loads import LATENCY, STANDARD, WARM_UP, Load
from benchmarks.machine import machine_facts
from benchmarks.measures import Results, significant
from benchmarks.servers import shared_servers
from benchmarks.stage import Stage
from benchmarks.statements import Statements, are_counted
from benchmarks.taking import take

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.measures import Figure
    from benchmarks.servers import Shared
    from benchmarks.statements import Served

EMPTY: Final = "empty"
FILLED: Final = "filled"
_LOADS: Final = tuple(STANDARD.values())

_HELP = """
Measures what a step costs when the tables already hold a long past, against empty ones.

Two databases of one PostgreSQL, each with a worker process of its own. One is filled first: \
a real ended instance of 40 steps is copied, with its step runs, journal and inbox rows, until \
--rows step rows are there, spread over 90 days; then both are warmed up, vacuumed and analysed. \
Then they take turns, load by load and round by round, so that what else the machine does meets \
both alike.

[bold]Loads[/bold]: 1x40 (one chain, alone), 100x10 (50 chains at once), 20x50 (10 at once); see \
python -m benchmarks chains --help

[bold]Examples[/bold]

python -m benchmarks growth

python -m benchmarks growth --rows 100000 --rounds 3

python -m benchmarks growth --json | tail -n 1

[bold]Output[/bold]

Progress goes to standard error, the table to standard output; with --json the last line of \
standard output is one JSON object. "ratios" tell how many times the milliseconds per step of the \
empty tables the filled ones take: 1 is no difference; "ratio_spreads" give the lowest and the \
highest of a single round; "append" tells what PostgreSQL counted, which a busy machine hardly \
disturbs (with --own-servers only if pg_stat_statements is preloaded there). A million rows take \
a minute or two to fill, and 0.9 GB on disk.

Exit code 0: measured; 1: the benchmark failed; 2: wrong arguments.
"""


def growth(
    rows: Annotated[
        int,
        typer.Option("--rows", min=1_000, max=100_000_000, help="Step rows in the filled tables."),
    ] = 1_000_000,
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
    console = Console(stderr=True, highlight=False)
    with shared_servers(own=own_servers, counted=True) as shared:
        databases = Databases(shared.database_url)
        try:
            machine = machine_facts() | {"postgresql": databases.facts()}
            measured = _Growth(shared, databases, console).measure(rows, rounds)
        except NotDurable as error:
            raise typer.BadParameter(str(error), param_hint="--own-servers") from None
        except BenchmarkError as error:
            console.print(f"failed: {error}", markup=False)
            raise typer.Exit(1) from None
    machine["load_average_after"] = machine_facts()["load_average"]
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    out.print(measured.table(rounds))
    out.print(measured.footer(machine), markup=False, soft_wrap=True)
    if as_json:
        print(json.dumps(measured.as_json() | {"machine": machine}), flush=True)


growth.__doc__ = _HELP


class _Measured:
    """The samples of both databases, and what these held before the rounds."""

    def __init__(
        self,
        held: Mapping[str, Mapping[str, float]],
        served: Mapping[str, Served],
        results: Results,
    ) -> None:
        self._held = held
        self._results = results
        self._appends = {
            name: {
                "server_ms": significant((of.executing + of.planning) / max(of.appends, 1)),
                "pages": significant(of.pages / max(of.appends, 1)),
            }
            for name, of in served.items()
        }

    def table(self, rounds: int) -> Table:
        shown = Table(
            title=f"A step on filled tables: median of {rounds} rounds (lowest to highest)",
            caption="ratio: how many times the time on empty tables; by round in brackets",
        )
        for heading in ("load", "empty, ms/step", "filled, ms/step", "ratio"):
            shown.add_column(heading, justify="left" if heading == "load" else "right")
        for load in _LOADS:
            shown.add_row(
                f"{load.name}, {'alone' if load.is_alone else f'{load.at_once} at once'}",
                _cell(self._results.step_milliseconds(EMPTY, load)),
                _cell(self._results.step_milliseconds(FILLED, load)),
                _cell(self._ratio(load)),
            )
        return shown

    def footer(self, machine: Mapping[str, Any]) -> str:
        return "\n".join(
            [
                *(
                    f"{name}: "
                    + ", ".join(
                        f"{value:,.0f} {what.removeprefix('workflow_').replace('_', ' ')}"
                        for what, value in held.items()
                    )
                    for name, held in self._held.items()
                ),
                *(
                    f"{name}: an append keeps the server busy for {of['server_ms']:.3f} ms (without"
                    f" the commit) and looks at {of['pages']:.1f} pages"
                    for name, of in self._appends.items()
                ),
                f"{machine['cores']} cores, load average {machine['load_average']} before and "
                f"{machine['load_average_after']} after, one commit "
                f"{machine['postgresql']['commit_ms']} ms",
            ]
        )

    def as_json(self) -> dict[str, Any]:
        ratios = {f"growth_{load.name}": self._ratio(load) for load in _LOADS}
        return {
            "ratios": {name: significant(figure.median) for name, figure in ratios.items()},
            "ratio_spreads": {
                name: [significant(figure.low), significant(figure.high)]
                for name, figure in ratios.items()
            },
            "ms_per_step": {
                name: {
                    load.name: self._results.step_milliseconds(name, load).as_json()
                    for load in _LOADS
                }
                for name in (EMPTY, FILLED)
            },
            "append": self._appends,
            "held": self._held,
        }

    def _ratio(self, load: Load) -> Figure:
        return self._results.latency_ratio(FILLED, EMPTY, load)


class _Growth:
    """Sets both databases up, fills one, measures."""

    def __init__(self, shared: Shared, databases: Databases, console: Console) -> None:
        self._shared = shared
        self._databases = databases
        self._console = console
        self._urls = {name: databases.create(name) for name in (EMPTY, FILLED)}

    def measure(self, rows: int, rounds: int) -> _Measured:
        """Runs all rounds.

        Raises:
            ContenderFailed: A worker process failed.
        """
        results = Results()
        with contextlib.ExitStack() as running:
            stages = {name: running.enter_context(self._stage(name)) for name in self._urls}
            self._tell("setting up two databases and two workers")
            for stage in stages.values():
                stage.run(LATENCY)
            with self._bar(rows) as told:
                filling.fill(self._urls[FILLED], rows, told)
            filling.settle(self._urls[FILLED])
            held = {name: filling.held(url) for name, url in self._urls.items()}
            self._tell("warming up")
            for stage in stages.values():
                for load in (WARM_UP, *_LOADS):
                    stage.run(load)
            for url in self._urls.values():
                filling.settle(url)
            counted = self._counted()
            before = {name: statements.read() for name, statements in counted.items()}
            for number in range(rounds):
                for load in _LOADS:
                    for name in (EMPTY, FILLED) if number % 2 == 0 else (FILLED, EMPTY):
                        seconds = take(stages[name], load)
                        results.add(name, load, seconds)
                        self._tell(
                            f"round {number + 1}/{rounds}  {load.name:>7}  {name:<7}"
                            f"{seconds * 1_000 / load.total_steps:8.2f} ms/step"
                        )
            served = {name: of.read().since(before[name]) for name, of in counted.items()}
            for stage in stages.values():
                stage.teardown()
        for of in counted.values():
            of.close()
        self._databases.drop(self._urls)
        return _Measured(held, served, results)

    def _counted(self) -> dict[str, Statements]:
        """What reads the server's own statistics; nothing if it keeps none."""
        if not are_counted(self._shared.database_url):
            return {}
        return {
            name: Statements(self._shared.database_url, url) for name, url in self._urls.items()
        }

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[Stage]:
        directory = self._shared.directory / name
        directory.mkdir()
        servers = Servers(
            database_url=self._urls[name],
            temporal_address=self._shared.temporal_address,
            temporal_namespace=self._shared.temporal_namespace,
            directory=directory,
        )
        with Stage(ALMANAC, self._shared.directory / f"{name}.log") as stage:
            stage.setup(servers)
            yield stage

    @contextlib.contextmanager
    def _bar(self, rows: int) -> Iterator[Any]:
        columns = (
            TextColumn("filling"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("step rows"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task("filling", total=rows)
            yield lambda added: progress.update(task, advance=added)

    def _tell(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


def _cell(figure: Figure) -> str:
    return f"[bold]{figure.median:.2f}[/bold] ({figure.low:.2f}-{figure.high:.2f})"
