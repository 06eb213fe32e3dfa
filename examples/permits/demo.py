"""The tour: replays the sample log on embedded servers and reports from the tables.

Servers that ``ALMANAC_*`` names are left alone.

python examples/permits/demo.py
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # run as a file, Python looks for modules beside it; ours are found from the project's root
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import psycopg
from rich.console import Console
from rich.markup import escape

from adapter.errors import AlmanacError
from examples.permits.cases import Cases
from examples.permits.log import read_log
from examples.permits.make_sample import CLOSING, NAME, SAMPLE
from examples.permits.reporting import read_reports, show
from examples.permits.running import Outcome, replay
from examples.permits.stage import Stage, stage
from temporal_workflows.exiting import leave


def main() -> int:
    """Runs the demo; returns its exit code."""
    console = Console()
    try:
        return _run(console)
    except AlmanacError as error:
        console.print(f"[red]error:[/] {escape(str(error))}")
        return error.exit_code
    except KeyboardInterrupt:
        console.print("stopped")
        return 130


def _run(console: Console) -> int:
    with Cases(read_log(SAMPLE)) as cases:
        left_open = cases.ending_otherwise(CLOSING)
        console.print(
            f"[bold]Permits:[/] {cases.events} events of {cases.count} made-up permit cases "
            f"({SAMPLE.name}), {len(left_open)} of them still open."
        )
        with stage(cases, embedded=True, say=lambda text: console.print(f"- {text}")) as running:
            console.print(
                "- publishing a graph derived from the log, starting an instance for each case "
                "and emitting its further rows as events"
            )
            outcome = replay(running, cases, NAME, console, left_open=left_open)
            _report(running, outcome, console)
    return 1 if outcome.differences or outcome.failed else 0


def _report(running: Stage, outcome: Outcome, console: Console) -> None:
    console.print(
        f"- {outcome.events} events in {outcome.seconds:.1f} s; {len(outcome.differences)} "
        "differences between what the log says and what the tables say"
    )
    console.print("- three reports, each one plain SQL on the tables (examples/permits/reports):\n")
    with psycopg.connect(str(running.settings.database_url)) as connection:
        for report in read_reports(running.settings.tables):
            console.print(show(connection, report), "")


if __name__ == "__main__":
    leave(main())
