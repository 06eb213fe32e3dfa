"""Queued steps on a real Temporal server, with workers in this process."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from temporalio.client import WorkflowExecutionStatus

from adapter.engine.names import workflow_id
from adapter.execution.registry import Registry
from temporal_workflows import driver
from temporal_workflows.worker import running_worker
from tests.eventually import eventually_async
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    import pytest

    from adapter.execution.context import ActionContext
    from adapter.services.views import InstanceView
    from tests.workflow.system import System

SOON = 20.0


async def shows(system: System, ulid: str, node: str, status: str) -> InstanceView:
    """Waits until the latest step run of a node has a status."""

    async def has() -> InstanceView:
        view: InstanceView = await system.call(system.almanac.show, ulid)
        steps = [step for step in view.steps if step.node == node]
        assert steps
        assert steps[-1].status == status
        return view

    return await eventually_async(has, SOON)


async def started(system: System, document: dict[str, Any], payload: Any = None) -> str:
    await system.call(system.almanac.publish, document)
    begun = await system.call(system.almanac.start, "test", payload)
    ulid: str = begun.ulid
    return ulid


def attempts(view: InstanceView, node: str) -> list[str]:
    return [step.status for step in view.steps if step.node == node]


async def test_queued_and_inline_steps_follow_each_other(system: System) -> None:
    seen: list[str] = []

    @system.almanac.registry.action("long", timeout=30)
    def long(word: str) -> str:
        seen.append(word)
        return word.upper()

    @system.almanac.registry.action("short")
    async def short(word: str) -> str:
        seen.append(word)
        return word

    document = chain(
        action("one", "long", input={"word": "a"}),
        action("two", "short", input={"word": "${steps.one.output}"}),
        action("three", "long", input={"word": "${steps.two.output}"}),
    )
    async with system.worker():
        view = await system.ended(await started(system, document))
    assert view.status == "completed"
    assert seen == ["a", "A", "A"]


async def test_a13_a_queued_branch_begins_beside_an_inline_one(system: System) -> None:
    began: dict[str, float] = {}

    @system.almanac.registry.action("queued", timeout=30)
    def queued() -> None:
        began["queued"] = time.monotonic()

    @system.almanac.registry.action("inline")
    async def inline() -> None:
        began["inline"] = time.monotonic()
        await asyncio.sleep(1.5)

    both = {
        "id": "both",
        "type": "parallel",
        "config": {"branches": {"quick": "i", "slow": "q"}},
    }
    document = graph(
        both, action("i", "inline"), action("q", "queued"), edges=[("trigger", "both")]
    )
    async with system.worker():
        assert (await system.ended(await started(system, document))).status == "completed"
    assert began["queued"] - began["inline"] < 0.2


async def test_a13_a_queued_step_that_follows_an_inline_one_does_not_wait_for_other_branches(
    system: System,
) -> None:
    at: dict[str, float] = {}

    @system.almanac.registry.action("queued", timeout=30)
    def queued() -> None:
        at["queued"] = time.monotonic()

    @system.almanac.registry.action("brief")
    async def brief() -> None:
        await asyncio.sleep(0.1)
        at["brief"] = time.monotonic()

    @system.almanac.registry.action("after")
    async def after() -> None:
        at["after"] = time.monotonic()

    @system.almanac.registry.action("tardy")
    async def tardy() -> None:
        await asyncio.sleep(1.8)
        at["tardy"] = time.monotonic()

    both = {"id": "both", "type": "parallel", "config": {"branches": {"one": "b", "two": "t"}}}
    document = graph(
        both,
        action("b", "brief"),
        action("q", "queued"),
        action("a", "after"),
        action("t", "tardy"),
        edges=[("trigger", "both"), ("b", "q"), ("q", "a")],
    )
    async with system.worker():
        view = await system.ended(await started(system, document))
    assert view.status == "completed"
    assert [attempts(view, node) for node in "bqat"] == [["succeeded"]] * 4
    # The other handler alone would keep it 1.7 s.
    assert at["queued"] - at["brief"] < 1
    assert at["queued"] < at["tardy"]


async def test_a13_a_cancellation_reaches_a_queued_step_that_left_in_the_midst_of_a_turn(
    system: System,
) -> None:
    began, stopped = threading.Event(), threading.Event()

    @system.almanac.registry.action("queued", timeout=60)
    def queued(ctx: ActionContext) -> None:
        began.set()
        if ctx.cancelled.wait(50):
            stopped.set()

    @system.almanac.registry.action("brief")
    async def brief() -> None:
        await asyncio.sleep(0.1)

    @system.almanac.registry.action("tardy")
    async def tardy() -> None:
        await asyncio.sleep(1.8)

    both = {"id": "both", "type": "parallel", "config": {"branches": {"one": "b", "two": "t"}}}
    document = graph(
        both,
        action("b", "brief"),
        action("q", "queued"),
        action("t", "tardy"),
        edges=[("trigger", "both"), ("b", "q")],
    )
    async with system.worker():
        ulid = await started(system, document)
        assert await asyncio.to_thread(began.wait, SOON)
        await system.call(system.almanac.cancel, ulid)
        assert (await system.ended(ulid)).status == "cancelled"
        assert await asyncio.to_thread(stopped.wait, SOON)


async def test_a_queue_that_an_action_names_is_polled_by_the_workers_that_have_it(
    system: System,
) -> None:
    seen: list[str] = []
    gpu, plain = system.almanac.registry, Registry()
    for name, registry in (("gpu", gpu), ("plain", plain)):
        registry.action("encode", queue="gpu")(lambda name=name: seen.append(name))
    chosen = system.settings.worker.model_copy(update={"queues": ()})
    without = system.settings.model_copy(update={"worker": chosen})
    ulid = await started(system, chain(action("e", "encode")))
    async with running_worker(without, plain):
        await shows(system, ulid, "e", "scheduled")
        assert not seen
        async with system.worker():
            assert (await system.ended(ulid)).status == "completed"
    assert seen == ["gpu"]


async def test_a21_a_queued_step_waits_for_a_worker_with_its_handler(system: System) -> None:
    system.almanac.registry.action("new")(lambda: "done")
    ulid = await started(system, chain(action("n", "new")))
    async with running_worker(system.settings, Registry()):
        await shows(system, ulid, "n", "scheduled")
        async with system.worker():
            assert (await system.ended(ulid)).status == "completed"


async def test_a11c_a_driver_ends_when_the_instance_of_its_queued_step_is_gone(
    system: System,
) -> None:
    system.almanac.registry.action("new", queue="elsewhere")(lambda: "done")
    ulid = await started(system, chain(action("n", "new")))
    handle = system.client.get_workflow_handle(workflow_id(ulid))
    async with running_worker(system.settings, Registry()):
        await shows(system, ulid, "n", "scheduled")

        async def is_asked_for() -> None:
            assert (await handle.describe()).raw_description.pending_activities

        await eventually_async(is_asked_for, SOON)
        names = system.settings.tables
        with psycopg.connect(system.settings.database_url or "", autocommit=True) as record:
            record.execute(f"DELETE FROM {names.instances} WHERE ulid = %s".encode(), [ulid])
        # Only the worker of that queue finds out that there is nothing to run.
        async with system.worker():

            async def is_over() -> None:
                assert (await handle.describe()).status == WorkflowExecutionStatus.COMPLETED

            await eventually_async(is_over, SOON)


async def test_a_queued_step_that_fails_or_times_out_is_repeated_as_the_graph_says(
    system: System,
) -> None:
    calls: list[int] = []
    freed = threading.Event()

    @system.almanac.registry.action("shaky", timeout=30)
    def shaky() -> int:
        calls.append(1)
        if len(calls) == 1:
            freed.wait(SOON)
        elif len(calls) == 2:
            raise ValueError("not yet")
        return len(calls)

    retry = {"max_attempts": 3, "backoff": "constant", "initial": "PT0.1S"}
    document = chain(action("s", "shaky", retry=retry, timeout="PT2.1S"))
    async with system.worker():
        view = await system.ended(await started(system, document))
        freed.set()
    assert view.status == "completed"
    assert attempts(view, "s") == ["failed", "failed", "succeeded"]
    assert [step.error_code for step in view.steps if step.node == "s"] == [
        "step_timed_out",
        "step_failed",
        None,
    ]


async def test_a2_a_pause_and_a_cancellation_ask_the_handler_in_flight_to_stop(
    system: System,
) -> None:
    asked = threading.Event()

    @system.almanac.registry.action("long", timeout=60)
    def long(ctx: ActionContext) -> None:
        if ctx.cancelled.wait(SOON):
            asked.set()

    async with system.worker():
        ulid = await started(system, chain(action("one", "long"), action("two", "long")))
        await shows(system, ulid, "one", "running")
        await system.call(system.almanac.pause, ulid)

        async def paused() -> None:
            assert (await system.call(system.almanac.show, ulid)).status == "paused"

        await eventually_async(paused)
        assert not asked.is_set()
        await system.call(system.almanac.cancel, ulid)
        view = await system.ended(ulid)
        assert await asyncio.to_thread(asked.wait, 5)
    assert view.status == "cancelled"
    assert attempts(view, "one") == ["cancelled"]


async def test_a_paused_instance_ends_its_queued_step_and_goes_on_when_resumed(
    system: System,
) -> None:
    freed, calls = threading.Event(), []

    @system.almanac.registry.action("long", timeout=60)
    def long() -> int:
        calls.append(1)
        assert freed.wait(SOON)
        return len(calls)

    async with system.worker():
        ulid = await started(system, chain(action("one", "long"), action("two", "long")))
        await shows(system, ulid, "one", "running")
        await system.call(system.almanac.pause, ulid)

        async def paused() -> None:
            assert (await system.call(system.almanac.show, ulid)).status == "paused"

        await eventually_async(paused)
        freed.set()
        await shows(system, ulid, "one", "succeeded")
        await shows(system, ulid, "two", "scheduled")
        await system.call(system.almanac.resume, ulid)
        assert (await system.ended(ulid)).status == "completed"
    assert len(calls) == 2


async def test_progress_is_shown_and_a_step_outlives_its_lease(system: System) -> None:
    calls: list[int] = []

    @system.almanac.registry.action("long", heartbeat=1, timeout=60)
    async def long(ctx: ActionContext) -> str:
        calls.append(1)
        for done in range(7):
            ctx.progress({"done": done})
            await asyncio.sleep(1)
        return "done"

    async with system.worker():
        ulid = await started(system, chain(action("one", "long")))

        async def far() -> None:
            view: InstanceView = await system.call(system.almanac.show, ulid)
            assert view.steps
            progress = view.steps[-1].progress
            assert progress
            assert progress["done"] >= 2

        await eventually_async(far)
        view = await system.ended(ulid)
    assert (len(calls), view.status) == (1, "completed")
    assert view.steps[-1].progress == {"done": 6}


async def test_b11_a_driver_that_continues_as_new_leaves_its_steps_alone(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed, calls = threading.Event(), []

    @system.almanac.registry.action("long", timeout=60)
    def long(ctx: ActionContext) -> bool:
        calls.append(1)
        assert freed.wait(SOON)
        return ctx.cancelled.is_set()

    monkeypatch.setattr(driver, "MAX_SIGNALS", 3)
    async with running_worker(
        system.settings, system.almanac.registry, client=system.client
    ) as relay:
        ulid = await started(system, chain(action("one", "long")))
        await shows(system, ulid, "one", "running")
        handle = system.client.get_workflow_handle(workflow_id(ulid))
        first = (await handle.describe()).run_id
        for _ in range(5):
            await relay._engine.poke(ulid)

        async def another() -> None:
            assert (await handle.describe()).run_id != first

        await eventually_async(another)
        # Long enough for the server to tell the old activity that its execution is gone.
        assert not await asyncio.to_thread(freed.wait, 3)
        assert len(calls) == 1
        freed.set()
        view = await system.ended(ulid)
    assert (view.status, len(calls)) == ("completed", 1)
    assert view.steps[-1].output is False


async def test_a17b_a_worker_that_stops_hands_its_step_to_another_at_once(
    system: System,
) -> None:
    began = asyncio.Queue[float]()
    loop = asyncio.get_running_loop()

    @system.almanac.registry.action("long", timeout=60)
    def long(ctx: ActionContext) -> None:
        loop.call_soon_threadsafe(began.put_nowait, time.monotonic())
        if len(calls) == 0:
            calls.append(1)
            ctx.cancelled.wait(SOON)

    calls: list[int] = []
    chosen = system.settings.worker.model_copy(update={"grace": timedelta(seconds=0.2)})
    settings = system.settings.model_copy(update={"worker": chosen})
    async with AsyncExitStack() as first:
        await first.enter_async_context(running_worker(settings, system.almanac.registry))
        ulid = await started(system, chain(action("one", "long")))
        await began.get()
        async with system.worker():
            asked = time.monotonic()
            await first.aclose()
            again = await asyncio.wait_for(began.get(), SOON)
            view = await system.ended(ulid)
    assert again - asked < 3
    assert attempts(view, "one") == ["lost", "succeeded"]


async def test_a17b_a_worker_stops_in_time_although_a_handler_hangs(system: System) -> None:
    freed, reached = threading.Event(), threading.Event()

    @system.almanac.registry.action("stuck", timeout=600)
    def stuck() -> None:
        reached.set()
        freed.wait(60)

    chosen = {"grace": timedelta(seconds=0.1), "shutdown": timedelta(seconds=1)}
    settings = system.settings.model_copy(
        update={"worker": system.settings.worker.model_copy(update=chosen)}
    )
    async with running_worker(settings, system.almanac.registry, client=system.client):
        await started(system, chain(action("one", "stuck")))
        assert await asyncio.to_thread(reached.wait, SOON)
        asked = time.monotonic()
    assert time.monotonic() - asked < 8
    freed.set()
