"""Handlers that block, hang and overrun: what becomes of them, and of all the others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from adapter.errors import StepError
from adapter.execution.deps import turn_deps
from adapter.execution.runner import HandlerRunner
from tests.attacks.seams import PATIENCE
from tests.driving.turns import take_turn
from tests.eventually import eventually, eventually_async
from tests.execution.runtime import action, chain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adapter.execution.context import ActionContext
    from adapter.execution.deps import TurnDeps
    from tests.execution.runtime import Runtime

BLOCK = 2.0


@pytest_asyncio.fixture
async def go() -> AsyncIterator[threading.Event]:
    """Lets go what a test has left hanging."""
    event = threading.Event()
    yield event
    event.set()


def process(runtime: Runtime, **options: int) -> TurnDeps:
    """A process whose handlers run on so many threads."""
    runner = HandlerRunner(**options)
    runner.start()
    runtime.runners.append(runner)
    deps = runtime.process()
    return turn_deps(
        deps.settings,
        deps.pool,
        worker=deps.worker,
        registry=deps.registry,
        runner=runner,
        new_token=deps.new_token,
    )


def healthy(runtime: Runtime) -> None:
    @runtime.registry.action("healthy")
    async def coroutine() -> float:
        began = time.monotonic()
        await asyncio.sleep(0.01)
        return time.monotonic() - began


def blocking(runtime: Runtime, seconds: float = BLOCK) -> list[str]:
    """Registers ``blocking``; gives the names of the threads that it ran on."""
    threads: list[str] = []

    @runtime.registry.action("blocking", timeout=PATIENCE)
    async def coroutine() -> None:
        threads.append(threading.current_thread().name)
        time.sleep(seconds)  # noqa: ASYNC251 - what this module is about

    return threads


async def statuses(runtime: Runtime, ulids: list[str]) -> set[str]:
    return {(await runtime.instance(ulid))["status"] for ulid in ulids}


async def test_b17_one_blocking_handler_fails_nobody_and_holds_up_nobody_for_long(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    threads = blocking(runtime)
    healthy(runtime)
    deps = runtime.process()
    steps = [action(f"s{n}", "healthy", timeout="PT1S") for n in range(10)]
    version = await runtime.publish(chain(*steps))
    took: list[float] = []

    async def run() -> str:
        ulid = await runtime.start(version)
        began = time.monotonic()
        await runtime.finish(deps, ulid)
        took.append(time.monotonic() - began)
        return ulid

    others = [asyncio.create_task(run()) for _ in range(25)]
    culprit = await runtime.begun(chain(action("one", "blocking"), action("two", "blocking")))
    blocked = asyncio.create_task(runtime.finish(deps, culprit))
    await eventually_async(partial(_has, threads, 1))
    others += [asyncio.create_task(run()) for _ in range(25)]
    ulids = [await other for other in others]
    assert await statuses(runtime, ulids) == {"completed"}
    assert not blocked.done()
    assert (await blocked).status == "completed"
    assert set(await runtime.steps(ulids[0])) >= {(f"s{n}", 1, "succeeded") for n in range(10)}
    # Its second step had a thread of its own, which is said once.
    assert threads == ["almanac-handlers", "almanac-plain-handler"]
    (line,) = [r for r in caplog.records if "holds up the event loop" in r.getMessage()]
    assert "action 'blocking'" in line.getMessage()
    assert "test_blocking_handlers.py" in line.getMessage()
    assert culprit in line.getMessage()


async def _has(items: list[Any], count: int) -> None:
    assert len(items) >= count


async def test_b17_what_awaits_on_a_blocked_loop_gets_its_time_back(runtime: Runtime) -> None:
    threads = blocking(runtime)
    begun: list[int] = []

    @runtime.registry.action("waits", timeout=0.5)
    async def waits() -> str:
        begun.append(1)
        await asyncio.sleep(0.3)
        return "in time"

    deps = runtime.process()
    ulid = await runtime.begun(chain(action("one", "waits")))
    turn = asyncio.create_task(runtime.finish(deps, ulid))
    await eventually_async(partial(_has, begun, 1))
    culprit = asyncio.create_task(
        runtime.finish(deps, await runtime.begun(chain(action("one", "blocking"))))
    )
    await eventually_async(partial(_has, threads, 1))
    assert (await turn).status == "completed"
    assert (await culprit).status == "completed"
    assert begun == [1]


async def test_b17_a_blocking_handler_s_own_time_goes_on(
    runtime: Runtime, go: threading.Event
) -> None:
    @runtime.registry.action("blocking", timeout=0.3)
    async def coroutine() -> None:
        go.wait(PATIENCE)

    ulid = await runtime.ran(chain(action("one", "blocking")))
    step = await runtime.step(ulid, "one")
    assert (step["error_code"], step["error_retryable"]) == ("step_timed_out", True)
    assert "holds up its event loop" in step["error_message"]


@pytest.mark.parametrize("where", ["a task of its own", "a callback"])
async def test_b17_what_a_handler_leaves_behind_holds_up_nobody_either(
    runtime: Runtime, where: str, go: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    healthy(runtime)
    began = threading.Event()
    kept: list[Any] = []

    def block() -> None:
        began.set()
        go.wait(PATIENCE)

    async def task() -> None:
        block()

    @runtime.registry.action("leave")
    async def leave() -> None:
        loop = asyncio.get_running_loop()
        if where == "a callback":
            loop.call_later(0.1, block)
        else:
            await asyncio.sleep(0)
            kept.append(loop.create_task(task()))

    deps = runtime.process()
    await runtime.finish(deps, await runtime.begun(chain(action("one", "leave"))))
    assert await asyncio.to_thread(began.wait, PATIENCE)
    ulid = await runtime.begun(chain(action("one", "healthy", timeout="PT1S")))
    assert (await runtime.finish(deps, ulid)).status == "completed"
    (line,) = [r.getMessage() for r in caplog.records if "event loop" in r.getMessage()]
    assert ("by no handler" in line) == (where == "a callback")
    assert "in block" in line or "in wait" in line


async def test_b17_a_busy_loop_is_not_a_blocked_one(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    @runtime.registry.action("busy", timeout=PATIENCE)
    async def busy() -> None:
        for _ in range(5):
            until = time.monotonic() + 0.01
            while time.monotonic() < until:
                pass
            await asyncio.sleep(0)

    deps = runtime.process()
    version = await runtime.publish(chain(action("one", "busy")))
    ulids = [await runtime.start(version) for _ in range(20)]
    await asyncio.gather(*(runtime.finish(deps, ulid) for ulid in ulids))
    assert await statuses(runtime, ulids) == {"completed"}
    assert not [r for r in caplog.records if "event loop" in r.getMessage()]


def hanging(runtime: Runtime, go: threading.Event, **options: Any) -> list[int]:
    began: list[int] = []

    @runtime.registry.action("hang", **options)
    def hang() -> None:
        began.append(1)
        go.wait(PATIENCE)

    @runtime.registry.action("fine")
    def fine() -> str:
        return "fine"

    return began


async def test_plain_handlers_that_never_return_are_made_up_for(
    runtime: Runtime, go: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    hanging(runtime, go, timeout=0.1)
    deps = process(runtime, threads=2, spare=2)
    for _ in range(3):
        ulid = await runtime.begun(chain(action("one", "hang")))
        assert (await runtime.finish(deps, ulid)).status == "failed"
    ulid = await runtime.begun(chain(action("one", "fine")))
    assert (await runtime.finish(deps, ulid)).status == "completed"
    lines = [r.getMessage() for r in caplog.records if "keeps its thread" in r.getMessage()]
    assert len(lines) == 1
    assert "action 'hang'" in lines[0]
    go.set()

    def ended() -> None:
        threads = [t for t in threading.enumerate() if t.name == "almanac-plain-handler"]
        assert len(threads) <= 2

    await asyncio.to_thread(eventually, ended)


async def test_when_all_threads_are_held_what_queues_fails_in_its_time_and_async_steps_go_on(
    runtime: Runtime, go: threading.Event
) -> None:
    began = hanging(runtime, go, timeout=0.1)
    healthy(runtime)
    deps = process(runtime, threads=1, spare=1)
    for _ in range(2):
        await runtime.finish(deps, await runtime.begun(chain(action("one", "hang"))))
    ulid = await runtime.begun(chain(action("one", "fine", timeout="PT0.1S")))
    turn = asyncio.create_task(runtime.finish(deps, ulid))
    other = await runtime.begun(chain(action("one", "healthy")))
    assert (await runtime.finish(deps, other)).status == "completed"
    assert (await turn).status == "failed"
    step = await runtime.step(ulid, "one")
    assert (step["error_code"], step["error_retryable"]) == ("step_timed_out", True)
    assert (
        "all threads are held by calls that have overrun their time-out, of hang"
        in (step["error_message"])
    )
    go.set()
    ulid = await runtime.begun(chain(action("one", "fine")))
    assert (await runtime.finish(deps, ulid)).status == "completed"
    assert began == [1, 1]


async def test_threads_that_are_in_use_lawfully_are_waited_for(
    runtime: Runtime, go: threading.Event
) -> None:
    began = hanging(runtime, go, timeout=PATIENCE)
    deps = process(runtime, threads=1, spare=1)
    held = await runtime.begun(chain(action("one", "hang")))
    holder = asyncio.create_task(runtime.finish(deps, held))
    await eventually_async(partial(_has, began, 1))
    ulid = await runtime.begun(chain(action("one", "fine", timeout="PT0.1S")))
    turn = asyncio.create_task(runtime.finish(deps, ulid))
    # Longer than its time-out and the grace after it.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(turn), 1.6)
    go.set()
    assert (await turn).status == (await holder).status == "completed"


@pytest.mark.parametrize("what", ["plain", "async", "stubborn", "apart", "transactional"])
async def test_a_runner_stops_in_bounded_time_whatever_hangs(
    runtime: Runtime, go: threading.Event, what: str
) -> None:
    began = threading.Event()

    def hang() -> None:
        began.set()
        go.wait(PATIENCE)

    async def stubborn() -> None:
        began.set()
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    async def blocks() -> None:
        hang()

    def transactional(ctx: ActionContext) -> None:
        hang()

    function: Any = {
        "plain": hang,
        "async": blocks,
        "apart": blocks,
        "stubborn": stubborn,
        "transactional": transactional,
    }[what]
    runtime.registry.action("hang", timeout=PATIENCE, transactional=what == "transactional")(
        function
    )
    deps = runtime.process()
    if what == "apart":
        deps.runner.set_apart("hang")
    turn = asyncio.create_task(take_turn(deps, await runtime.begun(chain(action("one", "hang")))))
    assert await asyncio.to_thread(began.wait, PATIENCE)
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    before = time.monotonic()
    await asyncio.to_thread(deps.runner.stop, 0.5)
    assert time.monotonic() - before < 1.5


class Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class DeadlyStepError(StepError):
    @property
    def retryable(self) -> bool:
        raise SystemExit(3)

    @retryable.setter
    def retryable(self, value: bool) -> None:
        pass


@pytest.mark.parametrize("form", ["plain", "async"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Deadly(), "Deadly: its message cannot be read"),
        (DeadlyStepError("odd", "odd"), "odd"),
    ],
)
async def test_an_exception_that_cannot_be_read_is_a_failure_like_any_other(
    runtime: Runtime, form: str, error: Exception, message: str
) -> None:
    register = runtime.registry.action("fail")
    if form == "plain":

        @register
        def plain() -> None:
            raise error

    else:

        @register
        async def coroutine() -> None:
            raise error

    ulid = await runtime.ran(chain(action("one", "fail")))
    assert (await runtime.step(ulid, "one"))["error_message"] == message


@pytest.mark.parametrize("form", ["plain", "async"])
async def test_a_failure_leaves_its_traceback_in_the_log_once_for_a_visit(
    runtime: Runtime, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks() -> None:
        raise ValueError("seven")

    async def breaks_async() -> None:
        breaks()

    retry = {"max_attempts": 3, "initial": "PT0S"}
    function: Any = breaks if form == "plain" else breaks_async
    runtime.registry.action("fail", retry=retry)(function)
    caplog.set_level(logging.DEBUG, "almanac.action")
    ulid = await runtime.ran(chain(action("one", "fail")))
    records = [r for r in caplog.records if r.name == "almanac.action"]
    assert [r.levelname for r in records] == ["WARNING", "DEBUG", "DEBUG"]
    told, _, traceback = records[0].getMessage().partition("\n")
    assert told == f"action 'fail' failed at node 'one', attempt 1, of instance {ulid}"
    assert "in breaks" in traceback
    assert traceback.endswith("ValueError: seven")
    assert vars(records[0])["instance"] == ulid
