"""What a run tells: a table for people, one JSON object for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks import footprint
from benchmarks.contenders import ALMANAC, CONTENDERS
from benchmarks.loads import LATENCY, THROUGHPUT
from benchmarks.measures import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.loads import Load
    from benchmarks.measures import Figure
    from benchmarks.rounds import Run


def table(run: Run, loads: Sequence[Load], rounds: int) -> Table:
    """The medians with their spreads, one line per contender, and how Almanac compares."""
    shown = Table(
        title=f"Chains of steps: median of {rounds} rounds (lowest to highest)",
        caption="steps/s: more is better; ms/step: less is better",
    )
    shown.add_column("contender")
    for load in loads:
        heading = (
            f"{load.name}, alone\nms/step"
            if load.is_alone
            else f"{load.name}, {load.at_once} at once\nsteps/s"
        )
        shown.add_column(heading, justify="right")
    for name, entry in CONTENDERS.items():
        if name in run.results.seconds:
            shown.add_row(entry.title, *_cells(run, name, loads))
    return shown


def notes(run: Run) -> list[str]:
    """The table's footer: ratios, what Almanac has written, who is missing from the table."""
    lines = [
        f"{name}: {figure.median:.2f} ({figure.low:.2f} to {figure.high:.2f} by round)"
        for name, figure in ratios(run).items()
    ]
    lines += footprint.described(run.extra.get(ALMANAC, {}))
    lines += [f"left out: {name}: {reason}" for name, reason in run.left_out.items()]
    lines += [f"failed: {name}: {reason}" for name, reason in run.failed.items()]
    return lines


def ratios(run: Run) -> dict[str, Figure]:
    """Almanac against each peer that was measured with the standard loads.

    ``throughput_vs_X``: how many times X's steps per second, from 20x50. ``latency_vs_X``:
    Almanac's milliseconds per step as a multiple of X's, from 1x40; below 1 Almanac is faster.
    """
    results = run.results
    found: dict[str, Figure] = {}
    peers = [(name, entry.ratio) for name, entry in CONTENDERS.items() if name != ALMANAC]
    for name, ratio in peers:
        if results.has(ALMANAC, THROUGHPUT) and results.has(name, THROUGHPUT):
            found[f"throughput_vs_{ratio}"] = results.rate_ratio(ALMANAC, name, THROUGHPUT)
    for name, ratio in peers:
        if results.has(ALMANAC, LATENCY) and results.has(name, LATENCY):
            found[f"latency_vs_{ratio}"] = results.latency_ratio(ALMANAC, name, LATENCY)
    return found


def as_json(run: Run, machine: dict[str, Any]) -> dict[str, Any]:
    """The whole run as one JSON object."""
    compared = ratios(run)
    return {
        "ratios": {name: significant(figure.median) for name, figure in compared.items()},
        "ratio_spreads": {
            name: [significant(figure.low), significant(figure.high)]
            for name, figure in compared.items()
        },
        "contenders": {
            name: {
                "title": entry.title,
                "loads": run.results.as_json(name),
                "facts": run.facts.get(name, {}),
            }
            for name, entry in CONTENDERS.items()
            if name in run.results.seconds
        },
        "left_out": run.left_out,
        "failed": run.failed,
        "machine": machine,
        "almanac": run.extra.get(ALMANAC, {}),
    }


def _cells(run: Run, name: str, loads: Sequence[Load]) -> list[str]:
    return [
        _cell(run.results.step_milliseconds(name, load), 2)
        if load.is_alone
        else _cell(run.results.rate(name, load), 0)
        for load in loads
    ]


def _cell(figure: Figure, digits: int) -> str:
    low, high = f"{figure.low:.{digits}f}", f"{figure.high:.{digits}f}"
    return f"[bold]{figure.median:.{digits}f}[/bold] ({low}-{high})"
