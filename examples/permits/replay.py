"""Replays an event log as instances of a graph derived from it, and checks what the tables say.

python examples/permits/replay.py --log FILE.csv[.gz] [--json] [--database-url URL]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # run as a file, Python looks for modules beside it; ours are found from the project's root
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import psycopg
from rich.console import Console

from adapter.errors import AlmanacError, Unavailable
from examples.permits.cases import Cases
from examples.permits.log import read_log
from examples.permits.running import Outcome, replay
from examples.permits.stage import stage
from temporal_workflows.exiting import leave

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN = 10
"""Pairs of activities that are told when they are counted differently."""

INTERRUPTED = 130

_EPILOG = """\
Embedded servers end with the replay, and their data go with them. On a server of
yours the database is migrated, and the instances stay there.

exit codes:
  0    the tables count every pair of activities as the log does
  1    a count differs, or a case failed
  2    the log or the command line is not valid
  5    a server could not be reached, or nothing moved any more
  6    a setting does not fit
  130  interrupted

example:
  python examples/permits/replay.py --log examples/permits/sample.csv --json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code: 0, 1 when counts differ, others for errors."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True, log_path=False)
    try:
        outcome = _run(options, console)
    except AlmanacError as error:
        return _fail(error, console, as_json=options.json)
    except psycopg.OperationalError as error:
        return _fail(Unavailable(f"The database: {error}"), console, as_json=options.json)
    except KeyboardInterrupt:
        console.print("stopped")
        return INTERRUPTED
    _tell_differences(outcome, console)
    print(outcome.as_json() if options.json else _sentence(outcome))
    return 1 if outcome.differences or outcome.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--log",
        required=True,
        type=Path,
        metavar="FILE",
        help="UTF-8 CSV, plain or .gz, with the columns case, activity, timestamp, resource",
    )
    add("--json", action="store_true", help="end with one line of JSON on stdout")
    add(
        "--database-url",
        metavar="URL",
        help="PostgreSQL; default: $ALMANAC_DATABASE_URL, else an embedded server",
    )
    add(
        "--temporal-address",
        metavar="HOST:PORT",
        help="Temporal; default: $ALMANAC_TEMPORAL_ADDRESS, else an embedded server",
    )
    add(
        "--leave-open",
        type=_count,
        default=0,
        metavar="N",
        help="leave the N cases waiting in which something happened last (default: 0)",
    )
    add(
        "--workers",
        type=_count,
        default=1,
        metavar="N",
        help="worker processes (default: 1); 0 if one with this example's action runs already",
    )
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return number


def _run(options: argparse.Namespace, console: Console) -> Outcome:
    began = time.monotonic()
    with Cases(read_log(options.log)) as cases:
        read = time.monotonic() - began
        console.log(f"read {cases.events:,} events of {cases.count:,} cases in {read:.1f} s")
        with stage(
            cases,
            database_url=options.database_url,
            temporal_address=options.temporal_address,
            worker_count=options.workers,
            say=console.log,
        ) as running:
            left_open = cases.newest(options.leave_open)
            name = options.log.name.removesuffix(".gz").removesuffix(".csv")
            return replay(running, cases, name, console, left_open=left_open)


def _fail(error: AlmanacError, console: Console, *, as_json: bool) -> int:
    console.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print(json.dumps({"error": error.as_json()}))
    return error.exit_code


def _tell_differences(outcome: Outcome, console: Console) -> None:
    for difference in outcome.differences[:SHOWN]:
        console.print(
            f"{difference.before or '(start)'} -> {difference.after or '(end)'}: "
            f"{difference.in_log} in the log, {difference.in_tables} in the tables",
            markup=False,
        )
    if len(outcome.differences) > SHOWN:
        console.print(f"and {len(outcome.differences) - SHOWN} pairs more")


def _sentence(outcome: Outcome) -> str:
    verdict = "the tables count every pair of activities as the log does"
    if outcome.differences:
        verdict = f"{len(outcome.differences)} pairs of activities are counted differently"
    size = f"{outcome.events:,} events of {outcome.cases:,} cases"
    return f"{size} in {outcome.seconds:.1f} s: {verdict}."


if __name__ == "__main__":
    leave(main())
