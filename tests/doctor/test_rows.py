from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ulid import ULID

from tests.doctor.patient import EARLIER, GO, Patient
from tests.execution.runtime import action, chain

if TYPE_CHECKING:
    from typing import Any


async def family(patient: Patient) -> tuple[str, str]:
    """A parent that waits for its child, which waits for the signal ``go``."""
    almanac, key = patient.system.almanac, f"c{ULID()}".lower()
    await asyncio.to_thread(almanac.publish, {**chain(GO), "key": key})
    node: dict[str, Any] = {"id": "w", "type": "start_workflow", "config": {"workflow": key}}
    parent = await patient.started(chain(node))
    await patient.reached(parent, "waiting")
    ((child,),) = patient.sql("SELECT ulid FROM workflow_instances WHERE depth = 1")
    await patient.engine.poke(child)
    await patient.reached(child, "waiting")
    for ulid in (parent, child):
        patient.age("instances", ulid, "updated_at", "created_at")
    await patient.healthy()
    return parent, child


@pytest.mark.parametrize("gone", ["ended", "deleted"])
async def test_a_child_whose_parent_is_gone(patient: Patient, gone: str) -> None:
    async with patient.quiet():
        parent, child = await family(patient)
        await patient.forget(parent)
        if gone == "deleted":
            patient.lose(parent)
        else:
            mine = "instance_id = (SELECT id FROM workflow_instances WHERE ulid = %s)"
            patient.sql(f"UPDATE workflow_waits SET status = 'cancelled' WHERE {mine}", parent)
            patient.sql(f"UPDATE workflow_step_runs SET status = 'failed' WHERE {mine}", parent)
            patient.sql(
                f"UPDATE workflow_instances SET status = 'failed', ended_at = {EARLIER}"
                " WHERE ulid = %s",
                parent,
            )
        await patient.finds("child_orphaned", child)
        await asyncio.to_thread(patient.system.almanac.cancel, child)
        await patient.engine.poke(child)
        await patient.reached(child, "cancelled")
        await patient.ended(child)
        await patient.healthy()


async def test_a_parent_that_has_not_heard_of_an_end(patient: Patient) -> None:
    async with patient.quiet():
        parent, child = await family(patient)
        await patient.signal(child)
        await patient.engine.poke(child)
        await patient.reached(child, "completed")
        await patient.ended(child)
        patient.sql("DELETE FROM workflow_inbox WHERE kind = 'child'")
        patient.age("instances", child, "ended_at")
        patient.age("waits", parent, "created_at")
        await patient.mends("end_unheard", parent)
        await patient.reached(parent, "completed")


async def test_an_instance_that_nothing_would_ever_make_go_on(patient: Patient) -> None:
    almanac = patient.system.almanac
    await asyncio.to_thread(almanac.publish, {**chain(action("a", "echo")), "key": "k"})
    ulid = (await asyncio.to_thread(almanac.start, "k")).ulid
    patient.sql("DELETE FROM workflow_inbox")
    patient.age("instances", ulid, "updated_at", "created_at")
    async with patient.system.worker():
        await patient.mends("instance_stalled", ulid)
        await patient.reached(ulid, "completed")


async def test_rows_that_are_open_in_an_instance_that_has_ended(patient: Patient) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.signal(ulid)
        await patient.engine.poke(ulid)
        await patient.reached(ulid, "completed")
        await patient.ended(ulid)
        patient.age("instances", ulid, "ended_at")
        patient.sql("UPDATE workflow_waits SET status = 'pending'")
        patient.sql("UPDATE workflow_step_runs SET status = 'waiting' WHERE node_id = 'go'")
        await patient.mends("rows_left_open", ulid)
    statuses = patient.sql("SELECT status FROM workflow_step_runs WHERE node_id = 'go'")
    assert statuses == [("cancelled",)]


async def test_rows_whose_instance_is_not_there(patient: Patient) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        kept = patient.sql("SELECT count(*) FROM workflow_step_runs")
        ((row,),) = patient.sql(
            "INSERT INTO workflow_inbox (instance_id, kind, created_at)"
            f" VALUES (999999, 'signal', {EARLIER}) RETURNING id"
        )
        await patient.mends("rows_cut_off", f"workflow_inbox:{row}")
        assert patient.sql("SELECT count(*) FROM workflow_step_runs") == kept
        await patient.signal(ulid)
        await patient.engine.poke(ulid)
        await patient.reached(ulid, "completed")


async def test_a_journal_that_ends_before_its_instance(patient: Patient) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        patient.sql("UPDATE workflow_instances SET lock_version = lock_version + 1")
        await patient.finds("journal_broken", ulid)
        assert (await patient.doctor(fix=True)).fixes == ()
        patient.sql("UPDATE workflow_instances SET lock_version = lock_version - 1")
        await patient.healthy()


async def test_what_nobody_has_got_to_in_an_inbox(patient: Patient) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.signal(ulid)
        await patient.healthy(0)
        patient.age("inbox", ulid, "created_at", kind="signal")
        await patient.mends("inbox_unapplied", ulid)
        await patient.reached(ulid, "completed")


async def test_a_warning_becomes_an_error_with_its_age(patient: Patient) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.signal(ulid)
        patient.age("inbox", ulid, "created_at", kind="signal")
        assert (await patient.doctor()).status == "warnings"
        patient.sql("UPDATE workflow_inbox SET created_at = created_at - interval '1 hour'")
        assert (await patient.doctor()).status == "errors"


async def test_events_that_nobody_has_matched(patient: Patient) -> None:
    wait = {"id": "w", "type": "wait", "config": {"event": "paid"}}
    async with patient.quiet():
        ulid = await patient.started(chain(wait))
        await patient.reached(ulid, "waiting")
        event = await asyncio.to_thread(patient.system.almanac.emit, "paid", {})
        await patient.healthy(0)
        patient.sql(f"UPDATE workflow_events SET created_at = {EARLIER}")
        await patient.mends("events_unmatched", str(event))
        await patient.engine.poke(ulid)
        await patient.reached(ulid, "completed")
