"""Running a worker in the foreground: checks, signals, and a clean end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING, Any

from adapter.cli.output import stderr
from adapter.errors import AlmanacError, InvalidInput, Misconfigured, Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from adapter.settings import Settings

CONNECT_TIMEOUT = 10.0
"""Seconds until Temporal counts as unreachable."""

_LEVELS = ("debug", "info", "warning", "error")
_STOPS = (signal.SIGINT, signal.SIGTERM)


def set_up_logging(level: str) -> None:
    """Sends log lines of that level and above to stderr.

    Raises:
        InvalidInput: No such level.
    """
    if level.lower() not in _LEVELS:
        raise InvalidInput(
            f"--log-level takes {', '.join(_LEVELS)}, not {level!r:.80}", code="usage"
        )
    for chatty in ("alembic", "temporalio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def serve(settings: Settings) -> None:
    """Runs a worker of this process's registered actions until a signal comes.

    Raises:
        Misconfigured: A setting is missing, or the database is not migrated.
        Unavailable: The database or Temporal cannot be reached.
    """
    from adapter.records.migrating import verify

    if settings.database_url is None:
        raise Misconfigured("no database is named; set ALMANAC_DATABASE_URL")
    verify(settings.database_url, settings)
    run_until_stopped(_serve(settings))


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine on an event loop of its own; it is cancelled when a signal comes."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_stoppable(work))


async def _stoppable(work: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked:
            from temporal_workflows.exiting import leave

            leave(130)
        asked = True
        stderr().print("stopping; once more to end at once")
        task.cancel()

    for one in _STOPS:
        loop.add_signal_handler(one, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
    finally:
        for one in _STOPS:
            loop.remove_signal_handler(one)


async def _serve(settings: Settings) -> None:
    from adapter.execution.registry import default_registry
    from temporal_workflows.worker import running_worker

    client = await _connect(settings)
    async with running_worker(settings, default_registry, client=client):
        actions = sorted(default_registry)
        listed = ", ".join(actions) if actions else "none: give --import MODULE"
        stderr().print(
            f"worker {os.getpid()} is ready on task queue {settings.task_queue}; actions: {listed}",
            markup=False,
            soft_wrap=True,
        )
        await asyncio.Event().wait()


async def _connect(settings: Settings) -> Any:
    from temporalio.service import RPCError, RPCStatusCode

    from temporal_workflows.worker import connect

    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            client = await connect(settings)
            await _find_namespace(client)
            return client
    except AlmanacError:
        raise
    except Exception as error:
        if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
            raise Misconfigured(
                f"Temporal at {settings.temporal_address} has no namespace"
                f" {settings.temporal_namespace!r}: correct ALMANAC_TEMPORAL_NAMESPACE, or make it"
                f" with `temporal operator namespace create -n {settings.temporal_namespace}`"
            ) from error
        # Temporal's client raises what it likes; all of it means that it is not connected.
        told = str(error) or f"no answer within {CONNECT_TIMEOUT:g} s"
        raise Unavailable(
            f"Temporal cannot be reached at {settings.temporal_address}: {told}",
            code="temporal_unavailable",
        ) from error


async def _find_namespace(client: Any) -> None:
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest

    await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=client.namespace)
    )
