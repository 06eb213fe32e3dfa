"""One replay from the publication of the graph to the comparison of the counts."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.permits import watch
from examples.permits.compare import Difference, Run, differences, follows_in_tables
from examples.permits.derive import derive
from examples.permits.feed import feed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from rich.console import Console

    from examples.permits.cases import Cases
    from examples.permits.stage import Stage


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished replay.

    Attributes:
        run: Its instances.
        seconds: From the publication of the graph to the end of the comparison.
        differences: Pairs of activities that log and tables count differently.
        failed: Cases that failed.
    """

    run: Run
    cases: int
    events: int
    seconds: float
    differences: list[Difference]
    failed: int

    def as_json(self) -> str:
        """The line that ``--json`` ends with."""
        return json.dumps(
            {
                "cases": self.cases,
                "events": self.events,
                "mismatches": len(self.differences),
                "seconds": round(self.seconds, 2),
            }
        )


def replay(
    stage: Stage, cases: Cases, name: str, console: Console, *, left_open: Collection[str] = ()
) -> Outcome:
    """Publishes the graph of a log, runs all of its cases and compares.

    Args:
        stage: What the cases run on.
        cases: The log.
        name: What it is called.
        console: Shows the progress.
        left_open: Cases that go on waiting after their last row.
    """
    began = time.monotonic()
    derived = derive(name, cases.activities(left_open))
    published = stage.almanac.publish(derived.document)
    run = Run(published.definition_id, secrets.token_hex(8))
    tables = stage.settings.tables
    with (
        psycopg.connect(str(stage.settings.database_url), autocommit=True) as connection,
        progress_bar(console, cases.events) as show,
    ):

        def look() -> watch.Progress:
            stage.check()
            return watch.progress(connection, tables, run)

        feed(
            stage.almanac,
            derived,
            cases,
            run=run.mark,
            left_open=left_open,
            tell=lambda: show(look().handled),
        )
        stage.say(f"all is started and emitted after {time.monotonic() - began:.1f} s")
        in_log = cases.follows()
        end = watch.wait_for_end(
            look,
            lambda progress: show(progress.handled),
            rows=cases.events,
            closing=cases.count - len(left_open),
            advice=stage.advice,
        )
        in_tables = follows_in_tables(connection, tables, run, derived.nodes)
    if end.failure is not None:
        console.print(f"{end.failed} cases failed, one of them with {end.failure}", markup=False)
    return Outcome(
        run=run,
        cases=cases.count,
        events=cases.events,
        seconds=time.monotonic() - began,
        differences=differences(in_log, in_tables),
        failed=end.failed,
    )


@contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Callable[[int], None]]:
    """Shows a bar of events handled; yields what moves it."""
    columns = (TextColumn("events handled"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)
