"""An Almanac with faults planted in it, and a worker that mends nothing by itself."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psycopg
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from ulid import ULID

from adapter.engine.executions import TemporalExecutions
from adapter.engine.names import workflow_id
from adapter.engine.temporal import TemporalEngine
from adapter.services.diagnosing.examining import diagnose
from temporal_workflows.relay import Relay
from tests.eventually import eventually_async
from tests.execution.runtime import chain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adapter.services.diagnosing.report import Report
    from tests.workflow.system import System

EARLIER = "now() - interval '10 minutes'"
GO: dict[str, Any] = {"id": "go", "type": "wait", "config": {"signals": ["go"]}}


async def _idle(_: Relay) -> None:
    await asyncio.Event().wait()


@dataclass(slots=True)
class Patient:
    """A system under examination."""

    system: System

    @property
    def engine(self) -> TemporalEngine:
        return TemporalEngine(self.system.client, self.system.settings.task_queue)

    @property
    def executions(self) -> TemporalExecutions:
        return TemporalExecutions(self.system.client, self.system.settings.task_queue)

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """A worker whose relay stands still: what is planted stays until somebody pokes."""
        with patch.object(Relay, "run", _idle):
            async with self.system.worker():
                yield

    async def doctor(self, **options: Any) -> Report:
        return await asyncio.to_thread(diagnose, self.system.settings, **options)

    async def finds(self, code: str, *ids: str) -> None:
        """Doctor names this fault, in these things, and nothing else."""
        report = await self.doctor()
        assert [one.code for one in report.findings] == [code], report
        assert report.unseen == ()
        (found,) = report.findings
        assert found.meaning
        assert found.command
        if ids:
            assert sorted(found.samples) == sorted(ids)
            assert found.count == len(ids)
            assert found.age is not None
            assert found.age > 30

    async def mends(self, code: str, *ids: str) -> None:
        """Doctor names this fault and nothing else, mends it, and finds nothing any more."""
        await self.finds(code, *ids)
        report = await self.doctor(fix=True)
        assert [(one.code, one.failed) for one in report.fixes] == [(code, False)]
        await self.healthy()

    async def healthy(self, deadline: float = 30) -> None:
        async def nothing() -> None:
            report = await self.doctor()
            assert report.healthy, report

        await eventually_async(nothing, deadline)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Runs a statement as somebody who may do everything, also what triggers forbid."""
        url = self.system.settings.database_url or ""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            done = connection.execute(statement.encode(), values or None)
            return [] if done.description is None else done.fetchall()

    def lose(self, ulid: str) -> None:
        """Deletes an instance with all that belongs to it."""
        with psycopg.connect(self.system.settings.database_url or "") as connection:
            connection.execute("DELETE FROM workflow_instances WHERE ulid = %s", (ulid,))

    def alive(self, ahead: float = 0) -> None:
        """Signs of life, for a minute, of a worker that is not there; its clock may be ahead."""
        self.sql(
            "INSERT INTO workflow_workers (id, name, task_queue, seen_at, details)"
            " SELECT %s, 'somewhere:1', 'q', t.at, jsonb_build_object('clock',"
            " t.at + make_interval(secs => %s)) FROM (SELECT now() + interval '1 minute' AS at) t",
            str(ULID()),
            ahead,
        )

    def age(self, table: str, ulid: str, *columns: str, **where: str) -> None:
        """Makes an instance's rows of a table older."""
        which = "".join(f" AND t.{name} = '{value}'" for name, value in where.items())
        changed = ", ".join(f"{column} = {EARLIER}" for column in columns)
        own = "t.ulid = %s" if table == "instances" else "i.id = t.instance_id AND i.ulid = %s"
        other = "" if table == "instances" else " FROM workflow_instances i"
        self.sql(f"UPDATE workflow_{table} t SET {changed}{other} WHERE {own}{which}", ulid)

    async def started(self, document: dict[str, Any], payload: Any = None) -> str:
        """Publishes, starts and pokes."""
        almanac = self.system.almanac
        key = f"k{ULID()}".lower()
        await asyncio.to_thread(almanac.publish, {**document, "key": key}, check_actions=False)
        ulid = (await asyncio.to_thread(almanac.start, key, payload)).ulid
        await self.engine.poke(ulid)
        return ulid

    async def reached(self, ulid: str, status: str, deadline: float = 30) -> None:
        async def has() -> None:
            rows = self.sql("SELECT status FROM workflow_instances WHERE ulid = %s", ulid)
            assert rows == [(status,)]

        await eventually_async(has, deadline)

    async def waiting(self, *before: dict[str, Any]) -> str:
        """An instance that waits for the signal ``go``; it has done so for long."""
        ulid = await self.started(chain(*before, GO))
        await self.reached(ulid, "waiting")
        # Its turn is over, however often it was taken: what comes now waits for a poke.
        await self.system.shows(ulid, "waiting at go")
        self.age("instances", ulid, "updated_at")
        return ulid

    async def signal(self, ulid: str) -> None:
        await asyncio.to_thread(self.system.almanac.signal, ulid, "go")

    async def terminate(self, ulid: str) -> None:
        await self.system.client.get_workflow_handle(workflow_id(ulid)).terminate()
        await self._listed(ulid, False)

    async def forget(self, ulid: str) -> None:
        """Has Temporal lose an execution, as it does with all when it is wiped."""
        await self.system.client.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=self.system.client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=workflow_id(ulid)),
            )
        )

        async def gone() -> None:
            assert await self.executions.describe(ulid) is None

        await eventually_async(gone, 30)
        await self._listed(ulid, False)

    async def ended(self, ulid: str) -> None:
        """Waits until its execution is closed, which takes a moment longer than the instance."""
        await self._listed(ulid, False)

    async def _listed(self, ulid: str, expected: bool) -> None:
        async def check() -> None:
            found = [one.ulid async for one in self.executions.listed()]
            assert (ulid in found) is expected

        await eventually_async(check, 30)
