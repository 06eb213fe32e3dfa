from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psycopg
import pytest

from adapter.engine.executions import open_temporal
from adapter.records.migrating import upgrade
from adapter.services.diagnosing import examining
from adapter.services.diagnosing.checks import snapshot_held
from adapter.services.diagnosing.examining import diagnose
from adapter.settings import Settings
from temporal_workflows.dev.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from adapter.services.diagnosing.report import Report
    from tests.doctor.patient import Patient


def codes(report: Report) -> list[str]:
    return [one.code for one in report.findings]


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def settings(database_url: str, temporal_address: str) -> Settings:
    return Settings(database_url=database_url, temporal_address=temporal_address)


def test_a_database_that_does_not_answer(settings: Settings) -> None:
    (port,) = free_ports(1)
    report = diagnose(
        settings.model_copy(update={"database_url": f"postgresql://nobody@127.0.0.1:{port}/x"})
    )

    assert codes(report) == ["database_unreachable"]
    assert "refused" in report.findings[0].meaning
    assert "temporal_unreachable" in report.checked
    assert "inbox_unapplied" in {one.code for one in report.unseen}
    assert not any(one.failed for one in report.unseen)
    assert report.status == "errors"


def test_a_temporal_that_does_not_answer(settings: Settings) -> None:
    report = diagnose(settings.model_copy(update={"temporal_address": "127.0.0.1:1"}))

    assert codes(report) == ["temporal_unreachable"]
    assert "inbox_unapplied" in report.checked
    assert "execution_missing" in {one.code for one in report.unseen}


def test_a_namespace_that_is_not_there(settings: Settings) -> None:
    report = diagnose(settings.model_copy(update={"temporal_namespace": "elsewhere"}))

    assert codes(report) == ["temporal_unreachable"]
    assert "elsewhere" in report.findings[0].meaning


def test_servers_that_say_nothing_are_given_up(settings: Settings) -> None:
    with silent() as one, silent() as other, patch.object(examining, "CALL", 1.0):
        began = time.monotonic()
        report = diagnose(
            settings.model_copy(
                update={
                    "database_url": f"postgresql://nobody@127.0.0.1:{one}/x",
                    "temporal_address": f"127.0.0.1:{other}",
                }
            )
        )

    assert codes(report) == ["database_unreachable", "temporal_unreachable"]
    assert time.monotonic() - began < 60


def test_servers_that_nobody_has_named() -> None:
    report = diagnose(Settings(database_url=None, temporal_address=None), fix=True)

    assert codes(report) == ["database_unreachable", "temporal_unreachable"]
    assert "ALMANAC_DATABASE_URL" in report.findings[0].meaning
    assert report.fixes == ()


@pytest.mark.parametrize("revision", [None, "almanac_0005"])
def test_a_database_that_is_not_migrated(
    empty_database_url: str, temporal_address: str, revision: str | None
) -> None:
    settings = Settings(database_url=empty_database_url, temporal_address=temporal_address)
    if revision is not None:
        upgrade(empty_database_url, settings, revision)
    assert codes(diagnose(settings)) == ["migrations_behind"]

    upgrade(empty_database_url, settings)
    assert diagnose(settings).healthy


def test_settings_that_are_not_those_of_the_database(settings: Settings) -> None:
    other = settings.model_copy(update={"owner_key_type": "uuid", "primary_key_type": "ulid"})
    report = diagnose(other)

    assert codes(report) == ["settings_differ"]
    assert "primary_key_type" in report.findings[0].meaning
    assert "owner_key_type" in report.findings[0].meaning
    assert diagnose(settings).healthy


def test_a_transaction_that_is_open_for_long(settings: Settings) -> None:
    with psycopg.connect(settings.database_url or "") as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1")
        assert diagnose(settings).healthy
        with patch.object(snapshot_held, "LONG", 0.0):
            report = diagnose(settings)
        assert [(one.code, one.samples) for one in report.findings] == [
            ("snapshot_held", (str(reader.info.backend_pid),))
        ]
        reader.rollback()
        with patch.object(snapshot_held, "LONG", 0.0):
            assert diagnose(settings).healthy


async def test_unfinished_instances_and_nobody_who_works(patient: Patient) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.healthy(0)
    await patient.finds("workers_missing", ulid)
    async with patient.quiet():
        await patient.healthy()


async def test_a_clock_of_a_worker_that_is_wrong(patient: Patient) -> None:
    patient.alive()
    await patient.healthy(0)
    patient.alive(3600)
    report = await patient.doctor()
    assert [(one.code, one.samples) for one in report.findings] == [
        ("clock_skew", ("worker somewhere:1",))
    ]
    assert "3600 s ahead of it" in report.findings[0].meaning


async def test_workers_tell_their_clock(patient: Patient) -> None:
    async with patient.quiet():
        rows = patient.sql(
            "SELECT abs(extract(epoch FROM (details ->> 'clock')::timestamptz - seen_at)) < 5"
            " FROM workflow_workers"
        )
        assert rows == [(True,)]


@pytest.mark.parametrize("by", [-3600, 3600])
def test_a_clock_of_its_own_that_is_wrong(settings: Settings, by: int) -> None:
    report = diagnose(settings, clock=lambda: time.time() + by)

    assert codes(report) == ["clock_skew"]
    assert report.findings[0].samples == ("this process",)


@pytest.mark.parametrize("by", [-3600, 3600])
async def test_a_clock_of_temporal_that_is_wrong(patient: Patient, by: int) -> None:
    class Skewed:
        def __init__(self, executions: Any) -> None:
            self._executions = executions

        async def polled_at(self) -> datetime:
            return datetime.now(UTC) + timedelta(seconds=by)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._executions, name)

    @asynccontextmanager
    async def opener(settings: Settings, seconds: float) -> AsyncIterator[Any]:
        async with open_temporal(settings, seconds) as (engine, executions):
            yield engine, Skewed(executions)

    patient.alive()
    report = await asyncio.to_thread(diagnose, patient.system.settings, opener=opener)
    assert [(one.code, one.samples) for one in report.findings] == [("clock_skew", ("Temporal",))]
