"""Queued actions that tests stop, and workers that die in them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.attacks.seams import Held
from tests.driving.turns import run_step, take_turn

if TYPE_CHECKING:
    from adapter.execution.deps import TurnDeps
    from tests.execution.runtime import Runtime


def held(runtime: Runtime, name: str, **options: Any) -> Held:
    """A queued action whose calls stop until they are let go."""
    gate = Held(options.pop("only", 1_000))
    runtime.registry.action(name, **{"timeout": 60, **options})(gate.handler)
    return gate


def short(runtime: Runtime, name: str) -> list[Any]:
    seen: list[Any] = []

    async def handler(**values: Any) -> dict[str, Any]:
        seen.append(values)
        return values

    runtime.registry.action(name)(handler)
    return seen


async def beat(runtime: Runtime, deps: TurnDeps) -> None:
    async with runtime.pool.acquire() as connection:
        await deps.workers.beat(connection, deps.worker, name="w", task_queue="q", details={})


async def queued(runtime: Runtime, deps: TurnDeps, ulid: str, count: int = 1) -> list[str]:
    """Takes a turn and returns the queued steps that it tells of."""
    result = await take_turn(deps, ulid, activities=True)
    assert result.queued is not None
    assert len(result.queued) == count
    return [one.step for one in result.queued]


async def lease_over(runtime: Runtime, ulid: str) -> None:
    """Moves the leases of an instance's running steps into the past."""
    await runtime.pool.execute(
        "UPDATE workflow_step_runs s SET lease_until = clock_timestamp() - interval '1 second'"
        " FROM workflow_instances i WHERE i.id = s.instance_id AND i.ulid = $1"
        " AND s.status = 'running'",
        ulid,
    )


async def killed_in(gate: Held, runtime: Runtime, ulid: str, step: str) -> None:
    """A process that dies while it runs a queued step."""
    running = asyncio.create_task(run_step(runtime.process(), ulid, step))
    await gate.reached()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await lease_over(runtime, ulid)


async def counted(runtime: Runtime, ulid: str, node: str) -> list[bool]:
    rows = await runtime.rows("journal", ulid)
    return [
        row["data"]["counted"]
        for row in rows
        if row["kind"] == "step_lost" and row["node_id"] == node
    ]


async def is_running(runtime: Runtime, ulid: str) -> None:
    assert (await runtime.step(ulid, "q"))["status"] == "running"
