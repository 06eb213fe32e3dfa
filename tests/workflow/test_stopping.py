"""A worker that is told to stop ends in bounded time, whatever its handlers do."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from ulid import ULID

from tests.eventually import eventually_async
from tests.execution.runtime import action, chain
from tests.workflow.system import open_system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.workflow.system import System

SHUTDOWN = timedelta(seconds=1)


@pytest_asyncio.fixture
async def hurried(database_url: str, temporal_address: str) -> AsyncIterator[System]:
    worker = {"shutdown": SHUTDOWN, "grace": timedelta(0)}
    async with open_system(
        database_url, temporal_address, queue=str(ULID()), worker=worker
    ) as system:
        yield system


@pytest.mark.parametrize("lane", ["inline", "queued"])
@pytest.mark.parametrize("what", ["plain", "plain, all threads", "blocking", "stubborn"])
async def test_b10_b17_a_worker_stops_in_bounded_time_whatever_hangs(
    hurried: System, what: str, lane: str
) -> None:
    go = threading.Event()
    began: list[int] = []

    def plain() -> None:
        began.append(1)
        go.wait(60)

    async def blocking() -> None:
        plain()

    async def stubborn() -> None:
        began.append(1)
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    function: Any = {"blocking": blocking, "stubborn": stubborn}.get(what, plain)
    timeout = 2 if lane == "inline" else 60
    hurried.almanac.registry.action("hang", timeout=timeout)(function)
    await hurried.call(hurried.almanac.publish, chain(action("one", "hang")))
    count = 36 if what == "plain, all threads" else 1

    async def hangs() -> None:
        assert len(began) >= min(count, 20)

    try:
        async with contextlib.AsyncExitStack() as running:
            await running.enter_async_context(hurried.worker())
            await hurried.call(hurried.almanac.start_many, "test", [None] * count)
            await eventually_async(hangs)
            before = time.monotonic()
            await running.aclose()
            assert time.monotonic() - before < SHUTDOWN.total_seconds() + 14
    finally:
        go.set()
