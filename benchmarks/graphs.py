"""``python -m benchmarks graphs``: what structure costs beside plain chains, on Almanac alone."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from adapter.client.almanac import Almanac
from adapter.client.endings import Endings
from adapter.execution.registry import Registry
from adapter.settings import Settings
from benchmarks import shapes
from benchmarks.databases import Databases
from benchmarks.errors import BenchmarkError, NotDurable, WrongResult
from benchmarks.machine import machine_facts
from benchmarks.measures import Figure
from benchmarks.servers import shared_servers
from temporal_workflows.worker import running_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.servers import Shared
    from benchmarks.shapes import Shape

REGISTRY: Final = Registry()
START_BATCH: Final = 500
PATIENCE: Final = 600
"""Seconds after which a load counts as hung."""

_NAME = "graphs"
_HELP = """
Measures graphs with structure beside a plain chain: parallel branches, items, iterations, queued \
steps, events, children; then one event for many waiting instances.

Worker and callers run in this process. Every instance must end completed with the number of \
handler calls that its graph says, which is counted in the tables.

[bold]Examples[/bold]

python -m benchmarks graphs

python -m benchmarks graphs --only parallel --only queued --rounds 3

python -m benchmarks graphs --waiting 0 --json | tail -n 1

[bold]Output[/bold]

Progress goes to standard error, the table to standard output; with --json the last line of \
standard output is one JSON object. Exit code 0: measured; 1: something went wrong; 2: wrong \
arguments.
"""


@REGISTRY.action(shapes.STEP)
async def _step(n: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"n": n}


@REGISTRY.action(shapes.QUEUED, timeout="PT30S")
async def _queued(n: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"n": n}


@dataclass(slots=True)
class Measured:
    """The seconds of each round by shape, and of the wide event."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    wide: dict[str, float] = field(default_factory=dict)


def graphs(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="SHAPE", help="Only this shape.")
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=100, help="How often each is measured.")
    ] = 5,
    waiting: Annotated[
        int,
        typer.Option(
            "--waiting", min=0, max=100_000, help="Instances that wait for one event; 0 for none."
        ),
    ] = 10_000,
    as_json: Annotated[
        bool, typer.Option("--json", help="End standard output with one line of JSON.")
    ] = False,
) -> None:
    chosen = _chosen(only)
    console = Console(stderr=True, highlight=False)

    def tell(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    with shared_servers(own=False) as shared:
        databases = Databases(shared.database_url)
        try:
            machine = machine_facts() | {"postgresql": databases.facts()}
            url = databases.create(_NAME)
            measured = uvloop.run(_measure(shared, url, chosen, rounds, waiting, tell))
        except (BenchmarkError, NotDurable) as error:
            tell(f"failed: {error}")
            raise typer.Exit(1) from None
    machine["load_average_after"] = machine_facts()["load_average"]
    _show(chosen, measured, rounds)
    if as_json:
        print(json.dumps(_as_json(chosen, measured) | {"machine": machine}), flush=True)


graphs.__doc__ = _HELP


def _chosen(only: list[str] | None) -> list[Shape]:
    known = shapes.shapes()
    names = [shape.name for shape in known]
    for name in only or ():
        if name not in names:
            raise typer.BadParameter(
                f"{name!r} is no shape: choose among {', '.join(names)}", param_hint="--only"
            )
    return [shape for shape in known if not only or shape.name in only]


async def _measure(
    shared: Shared,
    url: str,
    chosen: list[Shape],
    rounds: int,
    waiting: int,
    tell: Callable[[str], None],
) -> Measured:
    settings = Settings(
        database_url=url,
        temporal_address=shared.temporal_address,
        temporal_namespace=shared.temporal_namespace,
        task_queue="benchmark-graphs",
    )
    measured = Measured()
    with Almanac(settings, registry=REGISTRY) as almanac:
        await asyncio.to_thread(almanac.migrate)
        for document in (shapes.child(), shapes.waiting(), *(one.document for one in chosen)):
            await asyncio.to_thread(almanac.publish, document)
        async with running_worker(settings, REGISTRY), Endings(settings) as endings:
            bench = _Bench(almanac, endings)
            tell("warming up")
            for shape in chosen:
                await bench.run(shape)
            for number in range(rounds):
                for shape in chosen:
                    seconds = await bench.run(shape)
                    measured.seconds.setdefault(shape.name, []).append(seconds)
                    rate = shape.steps * shape.instances / seconds
                    tell(f"round {number + 1}/{rounds}  {shape.name:<9}{rate:8.0f} steps/s")
            if waiting:
                measured.wide = await bench.wide(waiting, tell)
    return measured


@dataclass(slots=True)
class _Bench:
    almanac: Almanac
    endings: Endings

    async def run(self, shape: Shape) -> float:
        """Runs one round of a shape; a closed loop of callers who wait for the ends."""
        left = iter(range(shape.instances))
        ulids: list[str] = []

        async def caller() -> None:
            for _ in left:
                started = await asyncio.to_thread(self.almanac.start, shape.document["key"])
                ulids.append(started.ulid)
                for n in range(shape.events):
                    payload = {"instance": started.ulid, "n": n}
                    await asyncio.to_thread(self.almanac.emit, shapes.EVENT, payload)
                await self.endings.wait(started.ulid, PATIENCE)

        began = time.perf_counter()
        async with asyncio.TaskGroup() as callers:
            for _ in range(shape.at_once):
                callers.create_task(caller())
        seconds = time.perf_counter() - began
        await self._check(shape, ulids)
        return seconds

    async def _check(self, shape: Shape, ulids: list[str]) -> None:
        row = await self.endings.fetch(
            "SELECT count(DISTINCT i.id) FILTER (WHERE i.status = 'completed') AS completed,"
            " count(s.id) AS steps FROM workflow_instances r"
            " JOIN workflow_instances i ON i.root_instance_id = r.id"
            " LEFT JOIN workflow_step_runs s ON s.instance_id = i.id"
            " AND s.node_type = 'action' AND s.status = 'succeeded' WHERE r.ulid = ANY ($1)",
            ulids,
        )
        if row["completed"] < len(ulids) or row["steps"] != shape.steps * len(ulids):
            raise WrongResult(f"{shape.name}: {dict(row)} for {len(ulids)} instances")

    async def wide(self, count: int, tell: Callable[[str], None]) -> dict[str, float]:
        """One event for many instances that wait for it: how fast they are claimed, and go on."""
        key = shapes.waiting()["key"]
        began = time.perf_counter()
        for first in range(0, count, START_BATCH):
            payloads = [{}] * min(START_BATCH, count - first)
            await asyncio.to_thread(self.almanac.start_many, key, payloads)
        await self._until(key, "status = 'waiting'", count, tell)
        started = time.perf_counter() - began
        began = time.perf_counter()
        await asyncio.to_thread(self.almanac.emit, shapes.WIDE_EVENT, {})
        claimed = await self._claims(count)
        claim_seconds = time.perf_counter() - began
        await self._until(key, "status = 'completed'", count, tell)
        seconds = time.perf_counter() - began
        twice = await self.endings.fetch(
            "SELECT count(*) AS n FROM (SELECT j.instance_id FROM workflow_journal j"
            " WHERE j.kind = 'wait_fired' AND j.instance_id IN (SELECT i.id FROM workflow_instances"
            " i JOIN workflow_definitions d ON d.id = i.definition_id WHERE d.key = $1)"
            " GROUP BY 1 HAVING count(*) <> 1) x",
            key,
        )
        if twice["n"]:
            raise WrongResult(f"{twice['n']} instances did not go on exactly once")
        return {
            "instances": count,
            "begun_per_second": count / started,
            "claims_per_second": claimed / claim_seconds,
            "resumed_per_second": count / seconds,
            "seconds": seconds,
        }

    async def _claims(self, count: int) -> int:
        """Waits until an inbox row stands for every waiting instance."""
        while True:
            row = await self.endings.fetch(
                "SELECT count(*) AS n FROM workflow_inbox WHERE kind = 'event' AND event_id ="
                " (SELECT max(id) FROM workflow_events WHERE key = $1)",
                shapes.WIDE_EVENT,
            )
            if row["n"] >= count:
                return int(row["n"])
            await asyncio.sleep(0.02)

    async def _until(
        self, key: str, condition: str, count: int, tell: Callable[[str], None]
    ) -> None:
        told = time.perf_counter()
        while True:
            row = await self.endings.fetch(
                "SELECT count(*) AS n FROM workflow_instances i JOIN workflow_definitions d"
                f" ON d.id = i.definition_id WHERE d.key = $1 AND i.{condition}",
                key,
            )
            if row["n"] >= count:
                return
            if time.perf_counter() - told > 5:
                told = time.perf_counter()
                tell(f"{row['n']:,} of {count:,}: {condition}")
            await asyncio.sleep(0.1)


def _show(chosen: list[Shape], measured: Measured, rounds: int) -> None:
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    table = Table(title=f"Graphs: median of {rounds} rounds (lowest to highest)")
    table.add_column("graph")
    table.add_column("an instance does")
    table.add_column("at once", justify="right")
    table.add_column("steps/s", justify="right")
    table.add_column("instances/s", justify="right")
    for shape in chosen:
        rate = _rate(shape, measured)
        table.add_row(
            shape.name,
            shape.about,
            str(shape.at_once),
            f"[bold]{rate.median:.0f}[/bold] ({rate.low:.0f}-{rate.high:.0f})",
            f"{rate.median / shape.steps:.1f}",
        )
    out.print(table)
    if measured.wide:
        wide = measured.wide
        out.print(
            f"one event for {wide['instances']:,.0f} waiting instances: matched to"
            f" {wide['claims_per_second']:,.0f} of them a second, {wide['resumed_per_second']:,.0f}"
            f" a second went on, each once; all in {wide['seconds']:.1f} s",
            markup=False,
        )


def _rate(shape: Shape, measured: Measured) -> Figure:
    total = shape.steps * shape.instances
    return Figure.of([total / seconds for seconds in measured.seconds[shape.name]])


def _as_json(chosen: list[Shape], measured: Measured) -> dict[str, Any]:
    return {
        "graphs": {
            shape.name: {"steps_per_second": _rate(shape, measured).as_json()} for shape in chosen
        },
        "one_event": measured.wide,
    }
