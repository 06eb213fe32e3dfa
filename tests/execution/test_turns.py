from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.driving.turns import take_single_turn, take_turn
from tests.execution.runtime import action, chain

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime

THREE = chain(*(action(node, "note") for node in ("one", "two", "three")))


@pytest.fixture
def noting(runtime: Runtime) -> Runtime:
    runtime.registry.action("note")(lambda ctx: ctx.step.node)
    return runtime


async def test_a_turn_runs_all_that_it_can_in_its_time(noting: Runtime) -> None:
    ulid = await noting.begun(THREE)
    result = await take_turn(noting.process(), ulid)
    assert (result.status, result.ended, result.progressed) == ("completed", True, True)


async def test_a_turn_without_time_runs_one_step_and_leaves_the_next_scheduled(
    noting: Runtime,
) -> None:
    ulid = await noting.begun(THREE)
    process = noting.process(stretch=timedelta(0))
    left: list[Any] = []
    while not (result := await take_single_turn(process, ulid)).ended:
        assert (result.more, result.progressed, result.stuck) == (True, True, False)
        left.append((result.node, (await noting.steps(ulid))[-1][2]))
    assert left == [("two", "scheduled"), ("three", "scheduled")]
    writers = {row["writer"] for row in await noting.rows("journal", ulid)}
    assert len(writers) == len(left) + 1
    assert {status for *_, status in await noting.steps(ulid)} == {"succeeded"}
    step = await noting.step(ulid, "three")
    assert step["created_at"] < step["started_at"]


async def test_a_turn_that_is_asked_to_stop_begins_no_further_step(runtime: Runtime) -> None:
    stopping = asyncio.Event()
    home = asyncio.get_running_loop()

    @runtime.registry.action("note")
    async def note() -> None:
        stopped = asyncio.run_coroutine_threadsafe(_set(stopping), home)
        await asyncio.wrap_future(stopped)

    ulid = await runtime.begun(THREE)
    result = await take_turn(runtime.process(), ulid, stopping)
    assert (result.more, result.node) == (True, "two")
    assert await runtime.steps(ulid) == [
        ("trigger", 1, "succeeded"),
        ("one", 1, "succeeded"),
        ("two", 1, "scheduled"),
    ]


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_what_an_instance_is_told_meanwhile_is_applied_at_the_next_boundary(
    runtime: Runtime,
) -> None:
    home = asyncio.get_running_loop()
    told: list[str] = []

    @runtime.registry.action("note")
    async def note(ctx: Any) -> None:
        if ctx.step.node == "one":
            telling = runtime.tell(ctx.instance.ulid, "dance", {"with": "me"})
            told.append("dance")
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(telling, home))

    ulid = await runtime.begun(THREE)
    result = await take_turn(runtime.process(), ulid)
    assert (result.status, told) == ("completed", ["dance"])
    journal = [(row["kind"], row["node_id"]) for row in await runtime.rows("journal", ulid)]
    applied = journal.index(("inbox_applied", None))
    assert journal.index(("step_succeeded", "one")) < applied
    assert applied < journal.index(("step_succeeded", "two"))
    assert (await runtime.rows("inbox", ulid))[1]["result"] == {
        "status": "refused",
        "reason": "not_supported",
    }


async def test_names_as_long_as_they_may_be(noting: Runtime) -> None:
    node = "n" * 64
    ulid = await noting.ran(chain(action(node, "note")))
    step = await noting.step(ulid, node)
    assert step["output"] == node
    assert step["idempotency_key"] == f"wf:{ulid}:{node}:1"


async def test_processes_take_turns_at_one_instance_and_none_is_confused(noting: Runtime) -> None:
    ulid = await noting.begun(THREE)
    processes = [noting.process(stretch=timedelta(0)) for _ in range(3)]
    for turn in range(9):
        result = await take_turn(processes[turn % 3], ulid)
        if result.ended:
            break
    assert result.status == "completed"
    assert [node for node, attempt, _ in await noting.steps(ulid) if attempt == 1] == [
        "trigger",
        "one",
        "two",
        "three",
    ]
    assert len(await noting.steps(ulid)) == 4
