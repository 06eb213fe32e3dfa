from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from adapter.errors import StepError
from tests.eventually import eventually_async
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.execution.runtime import Runtime

ONE = chain(action("one", "try"), action("two", "fine"))


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class BareError(StepError):
    """A subclass that forgets to call its parent."""

    def __init__(self) -> None:
        pass


class OfItsOwn(BaseException):
    pass


def raising(error: BaseException | type[BaseException]) -> tuple[Callable[[], Any], ...]:
    def at_once() -> None:
        raise error

    async def awaited() -> None:
        await asyncio.sleep(0)
        raise error

    return at_once, awaited


async def failed(runtime: Runtime, function: Callable[..., Any], **more: Any) -> dict[str, Any]:
    """The failed step of an instance that ran the function; checks what failures have in common."""
    runtime.registry.actions.clear()
    runtime.registry.action("try", **more)(function)
    ulid = await runtime.begun(ONE)
    result = await runtime.finish(runtime.process(), ulid)
    assert (result.status, result.node) == ("failed", "one")
    step = await runtime.step(ulid, "one")
    instance = await runtime.instance(ulid)
    assert (step["status"], step["outcome"], step["output"]) == ("failed", "failure", None)
    assert instance["failed_node_id"] == "one"
    assert instance["failure_code"] == step["error_code"]
    assert instance["failure_message"] == step["error_message"]
    assert step["finished_at"] == instance["ended_at"]
    return step


@pytest.mark.parametrize("retryable", [True, False])
async def test_a_step_error_gives_the_step_its_code(runtime: Runtime, retryable: bool) -> None:
    for function in raising(StepError("card_declined", "no funds", retryable=retryable)):
        step = await failed(runtime, function)
        assert (step["error_code"], step["error_message"]) == ("card_declined", "no funds")
        assert step["error_retryable"] is retryable


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("seven"), "ValueError: seven"),
        (KeyError("seven"), "KeyError: 'seven'"),
        (ValueError(), "ValueError"),
        (ExceptionGroup("two", [ValueError(1)]), "ExceptionGroup: two (1 sub-exception)"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (OfItsOwn("own"), "OfItsOwn: own"),
        (MemoryError("full"), "MemoryError: full"),
        (UnprintableError(), "UnprintableError: its message cannot be read"),
        (TimeoutError("upstream"), "TimeoutError: upstream"),
    ],
)
async def test_whatever_a_handler_raises_is_a_failure_of_its_step(
    runtime: Runtime, error: BaseException, message: str
) -> None:
    for function in raising(error):
        step = await failed(runtime, function)
        assert (step["error_code"], step["error_message"]) == ("step_failed", message)
        assert step["error_retryable"] is True


async def test_a_handler_that_cancels_itself_has_failed(runtime: Runtime) -> None:
    at_once, awaited = raising(asyncio.CancelledError("enough"))
    assert (await failed(runtime, at_once))["error_message"] == "CancelledError: enough"
    assert (await failed(runtime, awaited))["error_message"] == "the handler was cancelled"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (StepError("a\0b", "x\0y"), "a\\0b", "x\\0y"),
        (StepError("c\ud800", "m\udfff"), "c\\ud800", "m\\udfff"),
        (StepError("c" * 70, "m" * 1_000_000), "c" * 64, "m" * 4_000),
        (StepError("", "empty"), "step_failed", "empty"),
        (StepError(7, ValueError("odd"), retryable="yes"), "7", "odd"),  # type: ignore[arg-type]
        (StepError(None, None), "step_failed", "None"),  # type: ignore[arg-type]
        (BareError(), "step_failed", ""),
        (ValueError("\0" * 3 + "\ud83d"), "step_failed", "ValueError: \\0\\0\\0\\ud83d"),
        (ValueError("ä€😀"), "step_failed", "ValueError: ä€😀"),
    ],
)
async def test_codes_and_messages_are_kept_as_far_as_a_column_takes_them(
    runtime: Runtime, error: BaseException, code: str, message: str
) -> None:
    step = await failed(runtime, raising(error)[0])
    assert (step["error_code"], step["error_message"]) == (code, message)
    assert isinstance(step["error_retryable"], bool)


@pytest.mark.parametrize("where", ["action", "node"])
async def test_an_async_handler_that_takes_too_long_is_cancelled_and_has_failed(
    runtime: Runtime, where: str
) -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    if where == "action":
        step = await failed(runtime, wait, timeout=0.05)
    else:
        runtime.registry.action("try", timeout=60)(wait)
        ulid = await runtime.ran(chain(action("one", "try", timeout="PT0.05S")))
        step = await runtime.step(ulid, "one")
    assert (step["error_code"], step["error_retryable"]) == ("step_timed_out", True)
    assert step["error_message"] == "node 'one' did not end within 0.05 s"
    assert cancelled.wait(5)


async def test_a_plain_handler_that_takes_too_long_has_failed_and_its_result_is_dropped(
    runtime: Runtime,
) -> None:
    go, ended = threading.Event(), threading.Event()

    def wait() -> str:
        go.wait(10)
        ended.set()
        return "late"

    step = await failed(runtime, wait, timeout=0.05)
    assert step["error_code"] == "step_timed_out"
    go.set()
    assert ended.wait(5)
    ulid = await runtime.pool.fetchval(
        "SELECT i.ulid FROM workflow_instances i JOIN workflow_step_runs s"
        " ON s.instance_id = i.id WHERE s.id = $1",
        step["id"],
    )
    assert (await runtime.step(ulid, "one"))["output"] is None


async def test_a_handler_that_takes_no_notice_of_its_cancellation_is_not_waited_for(
    runtime: Runtime,
) -> None:
    go = asyncio.Event()
    ended = threading.Event()
    home: list[asyncio.AbstractEventLoop] = []

    async def stubborn() -> str:
        home.append(asyncio.get_running_loop())
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return "late"

    step = await failed(runtime, stubborn, timeout=0.05)
    assert step["error_code"] == "step_timed_out"
    home[0].call_soon_threadsafe(go.set)
    assert ended.wait(5)


async def test_a_late_result_does_not_reach_the_attempt_that_follows(runtime: Runtime) -> None:
    go = threading.Event()

    def slow_once(ctx: Any) -> str:
        if ctx.step.attempt == 1:
            go.wait(10)
            return "late"
        go.set()
        return "second"

    retry = {"max_attempts": 2, "initial": "PT0S"}
    runtime.registry.action("try", timeout=0.4, retry=retry)(slow_once)
    ulid = await runtime.ran(chain(action("one", "try")))
    rows = [r for r in await runtime.rows("step_runs", ulid) if r["node_id"] == "one"]
    assert [(r["attempt"], r["status"], r["output"]) for r in rows] == [
        (1, "failed", None),
        (2, "succeeded", "second"),
    ]


async def test_an_async_handler_that_blocks_its_loop_has_failed_all_the_same(
    runtime: Runtime,
) -> None:
    go = threading.Event()

    async def blocking() -> None:
        go.wait(10)

    try:
        step = await failed(runtime, blocking, timeout=0.05)
    finally:
        go.set()
    assert step["error_code"] == "step_timed_out"
    assert "nor report it" in step["error_message"]


@pytest.mark.parametrize("what", ["exit", "stop"])
async def test_a_task_that_a_handler_leaves_behind_cannot_end_the_loop_of_the_others(
    runtime: Runtime, what: str
) -> None:
    kept: list[asyncio.Task[None]] = []

    @runtime.registry.action("leave")
    async def leave() -> None:
        async def later() -> None:
            if what == "stop":
                asyncio.get_running_loop().stop()
            else:
                raise SystemExit(3)

        kept.append(asyncio.get_running_loop().create_task(later()))

    @runtime.registry.action("fine")
    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    document = chain(action("one", "leave"), action("two", "fine"), action("three", "fine"))
    ulid = await runtime.ran(document)
    assert (await runtime.step(ulid, "three"))["output"] == "fine"

    async def over() -> None:
        assert kept[0].done()

    await eventually_async(over)
    if what == "exit":
        assert isinstance(kept[0].exception(), SystemExit)


async def test_a_failed_step_may_lead_on_and_back_to_itself(runtime: Runtime) -> None:
    @runtime.registry.action("try")
    async def try_(ctx: Any) -> int:
        if ctx.step.visit < 3:
            raise StepError("not_yet", "not yet", retryable=False)
        return int(ctx.step.visit)

    edges: list[Any] = [("trigger", "one"), {"from": "one", "to": "one", "on": "failure"}]
    ulid = await runtime.ran(graph(action("one", "try"), edges=edges))
    rows = [r for r in await runtime.rows("step_runs", ulid) if r["node_id"] == "one"]
    assert [(r["visit"], r["attempt"], r["status"]) for r in rows] == [
        (1, 1, "failed"),
        (2, 1, "failed"),
        (3, 1, "succeeded"),
    ]
    assert (await runtime.instance(ulid))["status"] == "completed"
