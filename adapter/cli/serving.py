"""Running a worker in the foreground: checks, signals, and a clean end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

from adapter.cli.output import stderr
from adapter.errors import InvalidInput, Misconfigured, Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from adapter.settings import Settings

_LEVELS = ("debug", "info", "warning", "error")
_STOPS = (signal.SIGINT, signal.SIGTERM)
_NO_ACTIONS = (
    "warning: this worker has no handlers, so steps that call actions wait for another one; name"
    " the modules that register them: --import MODULE"
)


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


def check_alive(settings: Settings) -> None:
    """Returns if a worker of this host has given a sign of life; for health checks.

    Raises:
        Unavailable: None has (``no_worker_alive``), or the database cannot be reached.
        Misconfigured: No database is named.
    """
    from adapter.records.connecting import make_database
    from adapter.records.workers import ALIVE, count_alive
    from adapter.services.faults import database_faults

    database = make_database(settings, pool_size=1)
    try:
        with database_faults(), database.connect() as connection:
            living = count_alive(connection, settings, socket.gethostname())
    finally:
        database.dispose()
    if not living:
        raise Unavailable(
            f"no worker of {socket.gethostname()} on task queue {settings.task_queue} has given a"
            f" sign of life in the last {ALIVE:g} s",
            code="no_worker_alive",
        )


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
        stderr().print("stopped")
    finally:
        for one in _STOPS:
            loop.remove_signal_handler(one)


async def _serve(settings: Settings) -> None:
    from adapter.execution.registry import default_registry
    from temporal_workflows.worker import running_worker

    async with running_worker(settings, default_registry):
        actions = sorted(default_registry)
        _say(
            f"worker {os.getpid()} is ready on task queue {settings.task_queue}; actions:"
            f" {', '.join(actions) or 'none'}"
        )
        if not actions:
            _say(_NO_ACTIONS, style="yellow")
        await asyncio.Event().wait()


def _say(text: str, *, style: str | None = None) -> None:
    stderr().print(text, markup=False, soft_wrap=True, style=style)
