"""What a run tells: a table for people, one JSON object for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from benchmarks.contenders import ALMANAC, CONTENDERS
from benchmarks.loads import LATENCY, THROUGHPUT
from benchmarks.measures import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.loads import Load
    from benchmarks.measures import Figure
    from benchmarks.rounds import Run

_LATENCY_PEERS: Final = ("dbos",)


def table(run: Run, loads: Sequence[Load], rounds: int) -> Table:
    """The medians with their spreads, one line per contender, and how Almanac compares."""
    shown = Table(
        title=f"Chains of steps: median of {rounds} rounds (lowest to highest)",
        caption="Steps per second: higher is better. Milliseconds per step: one chain, alone.",
    )
    shown.add_column("contender")
    for load in loads:
        if load.is_alone:
            shown.add_column(f"{load.name}\nms/step", justify="right")
        shown.add_column(f"{load.name}, {load.at_once} at once\nsteps/s", justify="right")
    for name, entry in CONTENDERS.items():
        if name in run.results.seconds:
            shown.add_row(entry.title, *_cells(run, name, loads))
    return shown


def notes(run: Run) -> list[str]:
    """One line for each ratio, and for each contender that is missing from the table."""
    lines = [
        f"{name}: {figure.median:.2f} ({figure.low:.2f} to {figure.high:.2f} by round)"
        for name, figure in ratios(run).items()
    ]
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
    for name, entry in CONTENDERS.items():
        if name == ALMANAC:
            continue
        if results.has(ALMANAC, THROUGHPUT) and results.has(name, THROUGHPUT):
            found[f"throughput_vs_{entry.ratio}"] = results.rate_ratio(ALMANAC, name, THROUGHPUT)
    for name in _LATENCY_PEERS:
        if results.has(ALMANAC, LATENCY) and results.has(name, LATENCY):
            found[f"latency_vs_{CONTENDERS[name].ratio}"] = results.latency_ratio(
                ALMANAC, name, LATENCY
            )
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
    cells = []
    for load in loads:
        if load.is_alone:
            cells.append(_cell(run.results.step_milliseconds(name, load), 2))
        cells.append(_cell(run.results.rate(name, load), 0))
    return cells


def _cell(figure: Figure, digits: int) -> str:
    low, high = f"{figure.low:.{digits}f}", f"{figure.high:.{digits}f}"
    return f"[bold]{figure.median:.{digits}f}[/bold] ({low}-{high})"
