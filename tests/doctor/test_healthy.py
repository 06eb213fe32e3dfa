from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from tests.doctor.patient import GO
from tests.eventually import eventually_async
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from adapter.execution.registry import Registry
    from tests.doctor.patient import Patient

EXAMINATIONS = 10
AT_ONCE = 20
AT_WORK = "SELECT count(*) FROM workflow_instances WHERE status IN ('pending', 'running')"
HOURS_AGO = "interval '3 hours'"
AGED = (
    ("instances", "created_at"),
    ("instances", "updated_at"),
    ("step_runs", "created_at"),
    ("step_runs", "updated_at"),
    ("waits", "created_at"),
)
# What is about to begin has not been so for hours.
AT_REST = {
    "instances": " WHERE status IN ('waiting', 'paused')",
    "step_runs": " WHERE status <> 'scheduled'",
}

STEPS = [action(name, "echo") for name in "abcde"]
RETRY = {"max_attempts": 50, "backoff": "constant", "initial": "PT0.5S", "max": "PT1S"}
BRANCHES = {
    "id": "p",
    "type": "parallel",
    "config": {"branches": {"one": "a", "two": "go", "three": "nap"}},
}
NAP: dict[str, Any] = {"id": "nap", "type": "delay", "config": {"for": "PT2S"}}


def documents(child: str) -> dict[str, dict[str, Any]]:
    parent = {"id": "w", "type": "start_workflow", "config": {"workflow": child}}
    left = {"id": "w", "type": "start_workflow", "config": {"workflow": child, "wait": False}}
    return {
        "steps": chain(*STEPS),
        "slow": chain(action("a", "slow"), action("b", "slow")),
        "queued": chain(action("a", "queued"), action("b", "queued")),
        "waits": chain(action("a", "echo"), GO),
        "branches": graph(BRANCHES, action("a", "echo"), GO, NAP, edges=[("trigger", "p")]),
        "delays": chain(NAP, {**NAP, "id": "again"}),
        "fails": chain(action("a", "fails", retry=RETRY)),
        "fails_at_once": chain(action("a", "fails")),
        "parent": chain(parent, action("a", "echo")),
        "leaves_its_child": chain(left),
    }


def register(registry: Registry) -> None:
    @registry.action("slow")
    async def slow() -> None:
        await asyncio.sleep(0.5)

    @registry.action("queued", timeout="PT1M")
    async def queued() -> None:
        await asyncio.sleep(1)

    @registry.action("fails")
    async def fails() -> None:
        raise RuntimeError("as it is meant to")


async def keep_starting(patient: Patient, keys: list[str]) -> None:
    almanac = patient.system.almanac

    async def has_room() -> None:
        assert patient.sql(AT_WORK)[0][0] <= AT_ONCE

    while True:
        for key in keys:
            started = (await patient.system.call(almanac.start, key)).ulid
            if key in ("waits", "parent"):
                await patient.system.call(almanac.pause, started)
                await patient.system.call(almanac.cancel, started)
        await asyncio.sleep(0.2)
        # A machine that is too slow for this load would be told so, and rightly.
        await eventually_async(has_room, 60)


async def test_ten_examinations_of_a_healthy_system_under_load_find_nothing(
    patient: Patient,
) -> None:
    almanac, call = patient.system.almanac, patient.system.call
    register(almanac.registry)
    graphs = documents("waits")
    for key, document in graphs.items():
        await call(almanac.publish, {**document, "key": key})
    async with patient.system.worker():
        for key in graphs:
            await call(almanac.start_many, key, [None] * 4)
        paused = [(await call(almanac.start, "waits")).ulid for _ in range(3)]
        for ulid in paused:
            await call(almanac.pause, ulid)

        async def settled() -> None:
            rows = patient.sql(
                "SELECT count(*) FILTER (WHERE status IN ('completed', 'failed')),"
                " count(*) FILTER (WHERE status = 'waiting'),"
                " count(*) FILTER (WHERE status = 'paused') FROM workflow_instances"
            )
            assert rows[0][0] >= 16, rows
            assert rows[0][1] >= 16, rows
            assert rows[0][2] == len(paused), rows

        await eventually_async(settled, 60)
        for table, column in AGED:
            patient.sql(
                f"UPDATE workflow_{table} SET {column} = {column} - {HOURS_AGO}"
                + AT_REST.get(table, "")
            )
        load = asyncio.create_task(keep_starting(patient, list(graphs)))
        for _ in range(EXAMINATIONS):
            report = await patient.doctor()
            assert report.healthy, report
            await asyncio.sleep(0.5)
        assert not load.done()
        load.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await load
        assert (await patient.doctor(fix=True)).fixes == ()
