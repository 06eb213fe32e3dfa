"""Instances that an earlier version has begun are brought to their end by this one."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from sqlalchemy import create_engine
from ulid import ULID

from adapter.interpreter.version import CURRENT
from adapter.records import append, load
from adapter.records.urls import sqlalchemy_url
from adapter.settings import Settings
from temporal_workflows.contracts import workflow_id
from tests.attacks.seams import assert_sound
from tests.execution.runtime import open_runtime
from tests.upgrades.documents import PAUSED
from tests.upgrades.midway import load_rows
from tests.upgrades.recorded import record, versions
from tests.upgrades.stage import PATIENCE, open_stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from adapter.services.views import InstanceView
    from tests.upgrades.stage import Stage

SCENES = {
    "event": ("waiting", "completed"),
    "signals": ("waiting", "completed"),
    "parallel": ("running", "completed"),
    "items": ("waiting", "completed"),
    "rounds": ("waiting", "completed"),
    "back-off": ("running", "completed"),
    "paused": ("paused", "completed"),
    "queued": ("running", "completed"),
    "inline": ("running", "completed"),
    "child": ("waiting", "completed"),
    "failed": ("failed", "completed"),
    "delay": ("waiting", "completed"),
    "pending": ("pending", "completed"),
    "told": ("waiting", "completed"),
}
"""How an instance of each kind was left, and how it is to end."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", versions())
async def test_instances_in_the_midst_of_things_end_as_they_should(
    number: str, database_url: str, temporal_address: str
) -> None:
    rows = record(number)
    _load(database_url, rows)
    ulids = {
        row["trigger_payload"]["scene"]: row["ulid"]
        for row in rows["instances"]
        if "scene" in row["trigger_payload"]
    }
    left = {row["trigger_payload"].get("scene"): row["status"] for row in rows["instances"]}
    assert {scene: left[scene] for scene in ulids} == {s: SCENES[s][0] for s in ulids}
    succeeded = _succeeded(rows)

    async with _stage(database_url, temporal_address) as stage:
        await stage.system.call(stage.almanac.rebuild_all)
        await _help(stage, ulids)
        for scene, ulid in ulids.items():
            view = await stage.system.ended(ulid, PATIENCE)
            assert (scene, view.status) == (scene, SCENES[scene][1])
            _check(view)
        told = await stage.system.call(stage.almanac.show, ulids["signals"])
        assert [step.output for step in told.steps[1:]] == [
            {"one": {"name": "one"}, "two": {"name": "two"}},
            {"name": "kept"},
        ]

    async with open_runtime(database_url) as runtime:
        for ulid in ulids.values():
            await assert_sound(runtime, ulid)
        kept = await runtime.pool.fetch(
            "SELECT id, status, output FROM workflow_step_runs WHERE id = ANY ($1)",
            list(succeeded),
        )
        assert {row["id"] for row in kept if row["status"] == "succeeded"} == set(succeeded)


def test_the_newest_recording_has_instances_in_the_midst_of_everything() -> None:
    rows = record(versions()[-1])
    scenes = {row["trigger_payload"].get("scene") for row in rows["instances"]}

    assert scenes - {None} == set(SCENES)
    assert {row["status"] for row in rows["step_runs"]} >= {
        *("running", "waiting", "scheduled", "retrying", "succeeded", "failed"),
    }
    assert {row["kind"] for row in rows["waits"] if row["status"] == "pending"} == {
        *("event", "signal", "timer", "instances"),
    }
    leases = ["lease_until" in row for row in rows["step_runs"] if row["status"] == "running"]
    assert sorted(leases) == [False, True]
    unapplied = {row["kind"] for row in rows["inbox"] if "applied_at" not in row}
    assert unapplied == {"start", "signal"}


def _load(database_url: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    engine = create_engine(sqlalchemy_url(database_url))
    with engine.begin() as connection:
        load_rows(connection, Settings(), rows)
    engine.dispose()


def _succeeded(rows: dict[str, list[dict[str, Any]]]) -> set[int]:
    return {row["id"] for row in rows["step_runs"] if row["status"] == "succeeded"}


@asynccontextmanager
async def _stage(database_url: str, temporal_address: str) -> AsyncIterator[Stage]:
    async with open_stage(
        database_url, temporal_address, task_queue=str(ULID()), queues=("spare",)
    ) as stage:
        stage.willing = True
        stage.brief.opened.set()
        stage.long.opened.set()
        yield stage


async def _help(stage: Stage, ulids: dict[str, str]) -> None:
    """Gives each instance what it waits for."""
    for scene in ("event", "parallel", "paused"):
        await stage.emit("up.go", {"scene": scene})
    for _ in range(2):
        await stage.emit("up.go", {"scene": "items"})
    await stage.emit("up.child", {"how": "hold"})
    await stage.tell("signal", ulids["signals"], "one", {"name": "one"})
    await stage.tell("signal", ulids["rounds"], "next", {})
    await stage.tell("resume", ulids["paused"])
    await stage.tell("retry", ulids["failed"])


def _check(view: InstanceView) -> None:
    """No visit to a node has succeeded twice, and none is left open."""
    ended = [(step.node, step.visit) for step in view.steps if step.status == "succeeded"]
    assert len(ended) == len(set(ended))
    assert {step.status for step in view.steps} <= {"succeeded", "failed", "lost", "cancelled"}


async def test_an_older_worker_leaves_an_instance_of_newer_rules_to_a_newer_one(
    database_url: str, temporal_address: str
) -> None:
    """As well: test_load.py and test_driver.py of tests/attacks, on turns and drivers alone."""
    async with open_stage(database_url, temporal_address, task_queue=str(ULID())) as stage:
        await stage.publish(PAUSED)
        with _interpreter(CURRENT + 1):
            ulid = await stage.start("paused")
            await stage.shows(ulid, "w")
        await stage.stop()
        await stage.begin()
        before = await _journal(database_url, ulid)
        assert {version for _, version in before} == {CURRENT + 1}

        await stage.emit("up.go", {})
        await stage.happened(ulid, "workflow_task_failed")
        assert await _journal(database_url, ulid) == before
        assert (await stage.system.call(stage.almanac.show, ulid)).status == "waiting"
        described = await stage.system.client.get_workflow_handle(workflow_id(ulid)).describe()
        assert described.status is not None
        assert described.status.name == "RUNNING"

        with _interpreter(CURRENT + 1):
            await stage.shows(ulid, "v")
            await stage.tell("cancel", ulid)
            await stage.has(ulid, "cancelled")


@contextmanager
def _interpreter(version: int) -> Iterator[None]:
    """Has workers be of another version, in what they read and what they write."""
    with patch.object(load, "CURRENT", version), patch.object(append, "CURRENT", version):
        yield


async def _journal(database_url: str, ulid: str) -> list[tuple[str, int]]:
    async with open_runtime(database_url) as runtime:
        return [(row["kind"], row["interpreter"]) for row in await runtime.rows("journal", ulid)]
