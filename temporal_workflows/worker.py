"""The worker: the composition root that connects turns, handlers, relay and Temporal."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkflowRunner
from ulid import ULID

from adapter.engine.connecting import connect
from adapter.engine.temporal import TemporalEngine
from adapter.execution.deps import turn_deps
from adapter.execution.registry import Registry, default_registry
from adapter.execution.runner import HandlerRunner
from adapter.execution.turn import take_turn
from adapter.interpreter.version import CURRENT
from adapter.records.connecting import make_database
from adapter.records.pooling import make_pool, needed
from adapter.services.matching import match_events
from temporal_workflows.activities import StepActivities, TurnActivities
from temporal_workflows.attributes import register_attributes
from temporal_workflows.contracts import queue_name
from temporal_workflows.driver import InstanceDriver
from temporal_workflows.handing_out import HandingOut
from temporal_workflows.heartbeat import Heartbeat
from temporal_workflows.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

    from temporalio.client import Client

    from adapter.execution.deps import TurnDeps
    from adapter.settings import Settings

LOGGER = logging.getLogger("almanac.worker")

STICKY_TIMEOUT = timedelta(seconds=2)
"""How long a task waits for the worker that cached the instance: a killed one delays no longer."""

HEARTBEAT = timedelta(seconds=1)

STOPPING = 5.0
"""Seconds that a worker takes to stop beside what its steps take."""

THREADS_PER_STEP = 4
"""A plain handler that outlives its time-out keeps its thread; others must still find one."""

MATCH_BATCH = 500
RELAY_CONNECTIONS = 4


@asynccontextmanager
async def running_worker(
    settings: Settings,
    registry: Registry = default_registry,
    *,
    client: Client | None = None,
    workflow_runner: WorkflowRunner | None = None,
) -> AsyncIterator[Relay]:
    """Runs a worker as long as the context is open.

    Args:
        settings: ``database_url`` and ``temporal_address`` must be set.
        registry: The actions that it has handlers for.
        client: Used instead of connecting to ``temporal_address``.
        workflow_runner: Unsandboxed by default: the driver decides nothing that a sandbox could
            protect, and the sandbox halves its speed.

    Raises:
        Misconfigured: A setting is missing or does not fit.
        Unavailable: Temporal or the database cannot be reached.
    """
    client = client or await connect(settings)
    await register_attributes(client)
    stopping = asyncio.Event()
    async with AsyncExitStack() as running:
        with needed():
            pool = await make_pool(settings, settings.worker.connections)
            running.push_async_callback(pool.close)
            relay_pool = await make_pool(settings, RELAY_CONNECTIONS)
            running.push_async_callback(relay_pool.close)
        runner = _runner(running)
        deps = turn_deps(
            settings,
            pool,
            worker=str(ULID()),
            registry=registry,
            runner=runner,
            step_runner=_runner(running, THREADS_PER_STEP * settings.worker.steps),
            new_token=lambda: str(ULID()),
        )
        engine = TemporalEngine(client, settings.task_queue)
        relay = Relay(
            settings, relay_pool, engine, running.enter_context(_matcher(settings)), _settling(deps)
        )
        # Handlers that append in their own transaction do so in threads of their own.
        loop = asyncio.get_running_loop()
        deps.nudge = lambda: _soon(loop, relay.nudge)
        beat = Heartbeat(deps.workers, relay_pool, settings, deps.worker, relay)
        await running.enter_async_context(_background(beat.run(), relay.run()))
        with needed():
            await beat.once()
        running.push_async_callback(beat.leave)
        turns = TurnActivities(deps, stopping, relay.ended, queues=True)
        deps.hand_out = HandingOut(client, settings.task_queue).hand_out
        steps = StepActivities(deps, stopping, engine.poke)
        workers = [_own_worker(client, settings, turns, steps, workflow_runner)]
        workers += [
            _queue_worker(client, settings, steps, queue) for queue in _queues(settings, registry)
        ]
        await running.enter_async_context(_polling(workers, settings))
        # Before all else at the end: turns then return at their next boundary.
        running.callback(stopping.set)
        yield relay


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # The loop is closed: nobody is left to be told.
        loop.call_soon_threadsafe(call)


def _settling(deps: TurnDeps) -> Callable[[str], Awaitable[object]]:
    """Turns that apply what came and begin nothing, as those of a worker that stops."""
    stopped = asyncio.Event()
    stopped.set()
    return lambda ulid: take_turn(deps, ulid, stopped, activities=True)


def _runner(running: AsyncExitStack, threads: int = 32) -> HandlerRunner:
    runner = HandlerRunner(threads)
    runner.start()
    running.callback(runner.stop)
    return runner


def _queues(settings: Settings, registry: Registry) -> list[str]:
    """The task queues beside its own that a worker takes queued steps from."""
    chosen = settings.worker.queues
    return sorted(registry.queues if chosen is None else set(chosen))


@asynccontextmanager
async def _polling(workers: list[Worker], settings: Settings) -> AsyncIterator[None]:
    """Runs Temporal's workers; at the end all stop at once, and in a bounded time."""
    async with AsyncExitStack() as running:
        for worker in workers:
            await running.enter_async_context(worker)
        try:
            yield
        finally:
            stops = [asyncio.create_task(worker.shutdown()) for worker in workers]
            bound = settings.worker.shutdown.total_seconds() + STOPPING
            _, late = await asyncio.wait(stops, timeout=bound)
            if late:
                LOGGER.error("stopping took more than %g s; what still runs is left behind", bound)
                running.pop_all()


def _queue_worker(client: Client, settings: Settings, steps: StepActivities, queue: str) -> Worker:
    return Worker(
        client,
        task_queue=queue_name(settings.task_queue, queue),
        activities=[steps.step],
        **_common(settings),
    )


def _common(settings: Settings) -> dict[str, Any]:
    return {
        # Without a name of its own the client library hashes every loaded module for one, which
        # takes longer than all the rest of a start.
        "build_id": f"almanac-{CURRENT}",
        "max_concurrent_activities": settings.worker.steps,
        # A cancellation comes with the answer to a heartbeat.
        "max_heartbeat_throttle_interval": HEARTBEAT,
        "default_heartbeat_throttle_interval": HEARTBEAT,
        "graceful_shutdown_timeout": settings.worker.shutdown,
    }


def _own_worker(
    client: Client,
    settings: Settings,
    turns: TurnActivities,
    steps: StepActivities,
    workflow_runner: WorkflowRunner | None,
) -> Worker:
    slots = settings.worker.turns
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[InstanceDriver],
        activities=[turns.turn, steps.step],
        workflow_runner=workflow_runner or UnsandboxedWorkflowRunner(),
        # Fewer turns than workflow tasks: a full house of turns must not stop pokes and timers.
        max_concurrent_local_activities=slots,
        max_concurrent_workflow_tasks=2 * slots + 8,
        max_cached_workflows=5_000,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        **_common(settings),
    )


@asynccontextmanager
async def _background(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _matcher(settings: Settings) -> Iterator[Callable[[], Awaitable[int]]]:
    """Matches a batch of events in a thread of its own, over a connection of its own."""
    database = make_database(settings)
    thread = ThreadPoolExecutor(1, thread_name_prefix="almanac-matcher")

    def match() -> int:
        with database.begin() as connection:
            return match_events(connection, settings, MATCH_BATCH).events

    try:
        yield lambda: asyncio.get_running_loop().run_in_executor(thread, match)
    finally:
        # A batch that is being matched has a connection, which must be back to be closed.
        thread.shutdown()
        database.dispose()


async def run_worker(settings: Settings, registry: Registry = default_registry) -> None:
    """Runs a worker until it is cancelled."""
    async with running_worker(settings, registry):
        await asyncio.Event().wait()
