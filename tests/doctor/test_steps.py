from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.doctor.patient import EARLIER, Patient
from tests.eventually import eventually_async
from tests.execution.runtime import action, chain
from tests.workflow.processes import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HANDLERS = """
@adapter.action("work")
def work():
    log("began")
    time.sleep(1.5)

@adapter.action("queued", timeout="PT1H")
def queued():
    log("began")
    time.sleep(60)
"""


@pytest.fixture
def workers(patient: Patient, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(patient.system, tmp_path)
    workers.module("handlers", HANDLERS)
    yield workers
    workers.close()


async def left_running(patient: Patient, workers: Workers, name: str) -> str:
    """An instance whose only worker was killed in a step, long ago."""
    process = workers.start("handlers")
    await workers.up(1)
    ulid = await patient.started(chain(action("a", name)))
    await workers.wrote("began")
    process.kill()
    process.wait()
    patient.age("instances", ulid, "updated_at", "created_at")
    patient.sql(f"UPDATE workflow_workers SET seen_at = {EARLIER}")
    return ulid


async def test_an_inline_step_of_a_worker_that_is_gone(patient: Patient, workers: Workers) -> None:
    ulid = await left_running(patient, workers, "work")
    patient.alive()
    await patient.healthy(0)
    patient.age("step_runs", ulid, "updated_at", status="running")
    patient.alive()
    await patient.finds("step_abandoned", ulid)

    patient.system.almanac.registry.action("work")(lambda: None)
    async with patient.quiet():
        await patient.doctor(fix=True)
        await patient.reached(ulid, "completed")
        await patient.ended(ulid)
        await patient.healthy()


async def test_a_queued_step_whose_lease_nobody_renews(patient: Patient, workers: Workers) -> None:
    ulid = await left_running(patient, workers, "queued")
    patient.alive()
    await patient.healthy(0)
    patient.age("step_runs", ulid, "lease_until", status="running")
    patient.alive()
    await patient.finds("lease_over", ulid)

    patient.system.almanac.registry.action("queued", timeout="PT1H")(lambda: None)
    async with patient.quiet():
        await patient.doctor(fix=True)
        await patient.reached(ulid, "completed", 60)
        await patient.ended(ulid)
        await patient.healthy()


DELAY: dict[str, Any] = {"id": "nap", "type": "delay", "config": {"for": "PT1H"}}
ONCE_MORE = {"max_attempts": 2, "backoff": "constant", "initial": "PT1H", "max": "PT1H"}


async def missed(patient: Patient, ulid: str) -> None:
    """Has what an instance waits for have fallen due long ago, without Temporal's timer."""
    mine = "instance_id = (SELECT id FROM workflow_instances WHERE ulid = %s)"
    patient.sql(
        "UPDATE workflow_journal SET data = jsonb_set(data, '{due_at}',"
        f" to_jsonb({EARLIER})) WHERE {mine} AND data ->> 'due_at' IS NOT NULL",
        ulid,
    )
    patient.sql(
        f"UPDATE workflow_waits SET due_at = {EARLIER} WHERE {mine} AND due_at IS NOT NULL", ulid
    )
    patient.sql(
        f"UPDATE workflow_step_runs SET scheduled_for = {EARLIER} WHERE {mine}"
        " AND status = 'retrying'",
        ulid,
    )


@pytest.mark.parametrize("what", ["delay", "wait", "back-off"])
async def test_what_is_due_and_does_not_happen(patient: Patient, what: str) -> None:
    calls: list[int] = []

    @patient.system.almanac.registry.action("fails_once")
    async def fails_once() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("not yet")

    node = {
        "delay": DELAY,
        "wait": {"id": "w", "type": "wait", "config": {"event": "never", "timeout": "PT1H"}},
        "back-off": action("a", "fails_once", retry=ONCE_MORE),
    }[what]
    # The worker's cache knows of the times as they were.
    async with patient.quiet():
        ulid = await patient.started(chain(node))

        async def waits() -> None:
            rows = patient.sql(
                "SELECT 1 FROM workflow_waits WHERE status = 'pending' UNION ALL"
                " SELECT 1 FROM workflow_step_runs WHERE status = 'retrying'"
            )
            assert rows

        await eventually_async(waits, 30)
    await missed(patient, ulid)
    async with patient.quiet():
        await patient.finds("due_not_fired", ulid)
        await patient.doctor(fix=True)
        await patient.reached(ulid, "completed")
        await patient.ended(ulid)
        await patient.healthy()


async def test_what_a_paused_instance_has_due_is_not_due(patient: Patient) -> None:
    async with patient.quiet():
        ulid = await patient.started(chain(DELAY))
        await patient.reached(ulid, "waiting")
        await asyncio.to_thread(patient.system.almanac.pause, ulid)
        await patient.engine.poke(ulid)
        await patient.reached(ulid, "paused")
    await missed(patient, ulid)
    async with patient.quiet():
        await patient.healthy(0)


async def test_a_step_that_nobody_begins(patient: Patient) -> None:
    ulid = ""
    node = action("a", "echo", timeout="PT1H")
    node["config"]["queue"] = "far"
    async with patient.quiet():
        ulid = await patient.started(chain(node))

        async def scheduled() -> None:
            rows = patient.sql("SELECT status FROM workflow_step_runs WHERE node_id = 'a'")
            assert rows == [("scheduled",)]

        await eventually_async(scheduled, 30)
        patient.age("instances", ulid, "updated_at")
        await patient.healthy(0)
        patient.age("step_runs", ulid, "updated_at", node_id="a")
        await patient.finds("step_unclaimed", ulid)

    worker = patient.system.settings.worker.model_copy(update={"queues": ("far",)})
    patient.system.settings = patient.system.settings.model_copy(update={"worker": worker})
    async with patient.quiet():
        await patient.reached(ulid, "completed", 60)
        await patient.ended(ulid)
        await patient.healthy()
