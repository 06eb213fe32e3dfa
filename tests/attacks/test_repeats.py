"""A turn may break off, be repeated or run twice at any point: the record ends as if it had not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from adapter.errors import StepError
from adapter.interpreter import entries as kinds
from tests.attacks.seams import FaultyAppender, assert_sound, record
from tests.driving.turns import take_turn
from tests.execution.runtime import Runtime, action, graph

if TYPE_CHECKING:
    from adapter.execution.deps import TurnDeps


def everything() -> dict[str, Any]:
    """One node of every kind: handlers that succeed and fail, variables, waits, a loop."""
    return graph(
        action("a", "test.echo", input={"case": "${ trigger.case }"}),
        {"id": "zero", "type": "set", "config": {"values": {"n": 0}}},
        action("count", "test.count", input={"n": "${ state.n }"}),
        {"id": "more", "type": "set", "config": {"values": {"n": "${ steps.count.output.n }"}}},
        {"id": "again", "type": "decision", "config": {"on": "${ state.n < 3 }"}},
        {
            "id": "event",
            "type": "wait",
            "config": {"event": "go", "match": {"case": "${ trigger.case }"}, "timeout": "PT1H"},
        },
        action("bad", "test.bad", retry={"max_attempts": 2, "initial": "PT0S"}),
        {"id": "late", "type": "wait", "config": {"event": "never", "timeout": "PT0.001S"}},
        {"id": "nap", "type": "delay", "config": {"for": "PT0S"}},
        action("b", "test.echo", input={"seen": "${ steps.event.output }"}),
        {"id": "end", "type": "end", "config": {"output": "${ steps.b.output.seen.v }"}},
        edges=[
            ("trigger", "a"),
            ("a", "zero"),
            ("zero", "count"),
            ("count", "more"),
            ("more", "again"),
            {"from": "again", "to": "count", "on": "true"},
            {"from": "again", "to": "event", "on": "false"},
            ("event", "bad"),
            {"from": "bad", "to": "late", "on": "failure"},
            {"from": "late", "to": "nap", "on": "timed_out"},
            ("nap", "b"),
            ("b", "end"),
        ],
    )


def handlers(runtime: Runtime) -> None:
    @runtime.registry.action("test.echo")
    async def echo(**values: Any) -> dict[str, Any]:
        return values

    @runtime.registry.action("test.count")
    def count(n: int) -> dict[str, Any]:
        return {"n": n + 1}

    @runtime.registry.action("test.bad")
    async def bad() -> None:
        raise StepError("no_luck", "it never works", retryable=True)


async def begun(runtime: Runtime, version: Any) -> str:
    ulid = await runtime.start(version, {"case": 7})
    await runtime.emit("go", {"case": 8, "v": 0})
    await runtime.emit("go", {"case": 7, "v": 1})
    return ulid


async def drive(deps: TurnDeps, ulid: str) -> None:
    """Takes turns as a driver does, pausing as long as they say, until the instance has ended."""
    for _ in range(100):
        result = await take_turn(deps, ulid)
        if result.ended:
            return
        if not result.more:
            await asyncio.sleep(result.delay or 0)
    raise AssertionError(f"instance {ulid} did not end")


async def undisturbed(runtime: Runtime, version: Any) -> tuple[dict[str, Any], int]:
    """The record of a run without faults, and how many appends it took."""
    ulid = await begun(runtime, version)
    deps = runtime.process()
    deps.appender = counter = FaultyAppender(runtime.settings, 0, "before")
    await drive(deps, ulid)
    assert (await runtime.instance(ulid))["status"] == "completed"
    return await record(runtime, ulid), counter.calls


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_turn_that_breaks_off_at_any_append_changes_nothing_in_the_end(
    runtime: Runtime, when: Any
) -> None:
    handlers(runtime)
    version = await runtime.publish(everything())
    expected, appends = await undisturbed(runtime, version)
    assert appends > 8

    for at in range(1, appends + 1):
        ulid = await begun(runtime, version)
        broken = runtime.process()
        broken.appender = FaultyAppender(runtime.settings, at, when)
        with pytest.raises(ConnectionResetError):
            await drive(broken, ulid)
        await drive(runtime.process(), ulid)
        assert await record(runtime, ulid) == expected, f"append {at} broke {when} its commit"
        await assert_sound(runtime, ulid)


async def test_a_turn_that_breaks_off_at_every_append_still_comes_to_its_end(
    runtime: Runtime,
) -> None:
    handlers(runtime)
    version = await runtime.publish(everything())
    expected, _ = await undisturbed(runtime, version)
    ulid = await begun(runtime, version)

    for _ in range(100):
        deps = runtime.process()
        async with runtime.pool.acquire() as connection:
            await deps.workers.beat(connection, deps.worker, name="w", task_queue="q", details={})
        deps.appender = FaultyAppender(runtime.settings, 2, "after")
        try:
            result = await take_turn(deps, ulid)
        except ConnectionResetError:
            continue
        if result.ended:
            break

    assert await record(runtime, ulid) == expected
    await assert_sound(runtime, ulid)


@pytest.mark.parametrize("processes", [1, 2])
async def test_two_turns_of_one_instance_at_once_end_as_one_would(
    runtime: Runtime, processes: int
) -> None:
    handlers(runtime)
    version = await runtime.publish(everything())
    expected, _ = await undisturbed(runtime, version)

    for _ in range(10):
        ulid = await begun(runtime, version)
        two = [runtime.process() for _ in range(processes)] * (3 - processes)
        for _ in range(20):
            results = await asyncio.gather(*(take_turn(deps, ulid) for deps in two))
            if all(result.ended for result in results):
                break
        assert await record(runtime, ulid) == expected
        await assert_sound(runtime, ulid)


async def test_a20_what_a_trigger_hands_on_reads_the_same_in_every_turn(runtime: Runtime) -> None:
    handlers(runtime)
    read = {"v": "${ steps.trigger.output.case }"}
    document = graph(
        action("a", "test.echo", input=read),
        action("b", "test.echo", input=read),
        edges=[("trigger", "a"), ("a", "b")],
    )
    ulid = await runtime.begun(document, {"case": 7})

    await runtime.finish(runtime.process(), ulid)

    outputs = await runtime.pool.fetch(
        "SELECT output FROM workflow_step_runs WHERE node_type = 'action' ORDER BY id"
    )
    assert [row["output"] for row in outputs] == ['{"v": 7}'] * 2
    assert kinds.STEP_FAILED not in await runtime.journal(ulid)
