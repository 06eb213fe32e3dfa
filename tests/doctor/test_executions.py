from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
from ulid import ULID

from adapter.engine.names import WORKFLOW_TYPE, workflow_id
from tests.doctor.patient import Patient
from tests.execution.runtime import action, chain
from tests.records.databases import fresh_database
from tests.workflow.system import open_system

if TYPE_CHECKING:
    from temporal_workflows.dev.stack import Stack


async def test_an_execution_that_temporal_has_lost(patient: Patient) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.waiting()
        await patient.healthy()
        await patient.forget(ulid)
        await patient.mends("execution_missing", ulid)


async def test_what_has_changed_just_now_or_is_about_to_be_poked_may_have_no_execution(
    patient: Patient,
) -> None:
    async with patient.quiet():
        changed, told = await patient.waiting(), await patient.waiting()
        await patient.signal(told)
        for ulid in (changed, told):
            await patient.forget(ulid)
        patient.sql("UPDATE workflow_instances SET updated_at = now() WHERE ulid = %s", changed)
        await patient.healthy(0)


async def test_an_execution_that_somebody_has_terminated_is_rebuilt_on_request(
    patient: Patient,
) -> None:
    calls = []

    @patient.system.almanac.registry.action("count")
    async def count() -> None:
        calls.append(1)

    async with patient.quiet():
        ulid = await patient.waiting(action("a", "count"))
        await patient.terminate(ulid)
        await patient.finds("execution_terminated", ulid)
        assert (await patient.doctor(fix=True)).fixes == ()
        await patient.finds("execution_terminated", ulid)

        rebuilt = await asyncio.to_thread(patient.system.almanac.rebuild, ulid)
        assert (rebuilt.poked, rebuilt.unfinished, rebuilt.refused) == (1, 1, ())
        await patient.healthy()
        await patient.signal(ulid)
        await patient.engine.poke(ulid)
        await patient.reached(ulid, "completed")
        await patient.ended(ulid)
        await patient.healthy()
    assert calls == [1]
    assert patient.sql("SELECT count(*) FROM workflow_step_runs WHERE node_id = 'a'") == [(1,)]


async def test_a_record_that_was_restored_to_an_earlier_moment_is_behind(
    patient: Patient, stack: Stack
) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
    patient.system.almanac.close()
    own = patient.system.settings.database_url or ""
    with psycopg.connect(own) as connection:
        name = connection.info.dbname
    with fresh_database(stack, template=name) as backup:
        async with open_system(
            own,
            patient.system.settings.temporal_address or "",
            queue=patient.system.settings.task_queue,
        ) as system:
            later = Patient(system)
            async with later.quiet():
                await later.signal(ulid)
                await later.engine.poke(ulid)
                await later.reached(ulid, "completed")
                await later.ended(ulid)
        async with open_system(
            backup,
            patient.system.settings.temporal_address or "",
            queue=patient.system.settings.task_queue,
        ) as system:
            restored = Patient(system)
            async with restored.quiet():
                await restored.mends("record_behind", ulid)
                await restored.signal(ulid)
                await restored.engine.poke(ulid)
                await restored.reached(ulid, "completed")


async def test_executions_of_instances_that_the_record_does_not_know(patient: Patient) -> None:
    async with patient.quiet():
        waiting = await patient.waiting()
        patient.lose(waiting)
        report = await patient.doctor()
        assert [(one.code, one.samples) for one in report.findings] == [
            ("instance_unknown", (waiting,))
        ]
        assert report.status == "warnings"
        await patient.forget(waiting)
        await patient.healthy()

        ended = await patient.started(chain(action("a", "echo")))
        await patient.reached(ended, "completed")
        await patient.ended(ended)
        patient.lose(ended)
        assert [one.samples for one in (await patient.doctor()).findings] == [(ended,)]


async def test_an_execution_that_is_still_there_when_its_instance_has_ended(
    patient: Patient,
) -> None:
    async with patient.quiet():
        ulid = await patient.started(chain(action("a", "echo")))
        await patient.reached(ulid, "completed")
        await patient.ended(ulid)
        patient.age("instances", ulid, "ended_at", "updated_at")
        await patient.system.client.start_workflow(
            WORKFLOW_TYPE,
            ulid,
            id=workflow_id(ulid),
            task_queue=patient.system.settings.task_queue,
            start_delay=timedelta(hours=1),
        )
        await patient.mends("execution_needless", ulid)


async def test_executions_of_others_on_the_server_are_none_of_ours(patient: Patient) -> None:
    other, own = f"other-{ULID()}", patient.system.settings.task_queue
    async with patient.quiet():
        await patient.waiting()
        for workflow, queue in ((f"wf:{ULID()}", other), (other, own)):
            await patient.system.client.start_workflow(
                WORKFLOW_TYPE, "x", id=workflow, task_queue=queue, start_delay=timedelta(hours=1)
            )
        await patient.healthy()
