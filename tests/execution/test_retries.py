from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from adapter.errors import StepError
from adapter.settings import Limits
from tests.driving.turns import take_turn
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime

AT_ONCE = {"max_attempts": 3, "initial": "PT0S"}


class Flaky:
    """A handler that fails a number of times; it keeps the inputs that it saw."""

    def __init__(self, failures: int, *, retryable: bool = True) -> None:
        self.failures = failures
        self.retryable = retryable
        self.seen: list[Any] = []

    async def __call__(self, value: Any = None) -> Any:
        self.seen.append(value)
        if len(self.seen) <= self.failures:
            raise StepError(f"failed_{len(self.seen)}", "no luck", retryable=self.retryable)
        return value


async def attempts(runtime: Runtime, ulid: str, node: str = "one") -> list[dict[str, Any]]:
    return [row for row in await runtime.rows("step_runs", ulid) if row["node_id"] == node]


async def test_a_failed_attempt_and_the_one_that_waits_for_its_time_are_rows(
    runtime: Runtime,
) -> None:
    retry = {"max_attempts": 3, "backoff": "linear", "initial": "PT1H", "max": "P1D"}
    runtime.registry.action("try")(Flaky(9))
    ulid = await runtime.begun(chain(action("one", "try", retry=retry)))
    result = await take_turn(runtime.process(), ulid)

    assert (result.status, result.node, result.more, result.stuck) == (
        "running",
        "one",
        False,
        False,
    )
    assert result.delay == pytest.approx(3_600, abs=5)
    first, second = await attempts(runtime, ulid)
    assert (first["attempt"], first["status"], first["error_code"]) == (1, "failed", "failed_1")
    assert (first["outcome"], first["error_retryable"]) == (None, True)
    assert (second["attempt"], second["status"], second["visit"]) == (2, "retrying", 1)
    assert second["scheduled_for"] - first["finished_at"] == pytest.approx(
        timedelta(hours=1), abs=timedelta(seconds=5)
    )
    assert (second["started_at"], second["input"], second["claim_token"]) == (None, None, None)
    assert first["idempotency_key"] == second["idempotency_key"]
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("running", "one")
    assert (await runtime.journal(ulid))[-2:] == ["step_failed", "step_scheduled"]

    for deps in (runtime.process(), runtime.process()):
        again = await take_turn(deps, ulid)
        assert (again.progressed, again.stuck) == (False, False)


async def test_attempts_go_on_until_one_succeeds(runtime: Runtime) -> None:
    handler = Flaky(2)
    runtime.registry.action("try")(handler)
    node = action("one", "try", retry=AT_ONCE, input={"value": "${ trigger }"})
    ulid = await runtime.begun(chain(node), 7)
    await runtime.drive(runtime.process(), ulid)
    rows = await attempts(runtime, ulid)
    assert [(r["attempt"], r["status"], r["outcome"], r["error_code"]) for r in rows] == [
        (1, "failed", None, "failed_1"),
        (2, "failed", None, "failed_2"),
        (3, "succeeded", "success", None),
    ]
    assert [(r["input"], r["output"]) for r in rows] == [
        ({"value": 7}, None),
        ({"value": 7}, None),
        ({"value": 7}, 7),
    ]
    assert handler.seen == [7, 7, 7]
    assert len({row["idempotency_key"] for row in rows}) == 1
    assert all(a["finished_at"] <= b["started_at"] for a, b in pairwise(rows))


async def test_when_the_last_attempt_fails_the_step_has_failed(runtime: Runtime) -> None:
    runtime.registry.action("try")(Flaky(9))
    runtime.registry.action("after")(lambda: None)
    one, after = action("one", "try", retry=AT_ONCE), action("after", "after")
    failure = {"from": "one", "to": "after", "on": "failure"}
    for edges, status in (([], "failed"), ([failure], "completed")):
        runtime.registry.actions.pop("try")
        runtime.registry.action("try")(Flaky(9))
        ulid = await runtime.begun(graph(one, after, edges=[("trigger", "one"), *edges]))
        await runtime.drive(runtime.process(), ulid)
        rows = await attempts(runtime, ulid)
        assert [(r["attempt"], r["status"], r["outcome"]) for r in rows] == [
            (1, "failed", None),
            (2, "failed", None),
            (3, "failed", "failure"),
        ]
        instance = await runtime.instance(ulid)
        assert instance["status"] == status
        assert instance["failure_code"] == ("failed_3" if status == "failed" else None)
        final = [
            row["data"]["final"]
            for row in await runtime.rows("journal", ulid)
            if row["kind"] == "step_failed"
        ]
        assert final == [False, False, True]


async def test_what_cannot_be_repeated_is_not(runtime: Runtime) -> None:
    handler = Flaky(9, retryable=False)
    runtime.registry.action("try", retry=AT_ONCE)(handler)
    ulid = await runtime.ran(chain(action("one", "try", retry=AT_ONCE)))
    assert [(r["attempt"], r["status"]) for r in await attempts(runtime, ulid)] == [(1, "failed")]
    assert len(handler.seen) == 1


@pytest.mark.parametrize(
    ("of_node", "of_action", "expected"),
    [(None, 3, 3), (2, 3, 2), (1, 3, 1), (3, 1, 3), (None, None, 1)],
)
async def test_the_policy_of_the_node_comes_before_that_of_the_action(
    runtime: Runtime, of_node: int | None, of_action: int | None, expected: int
) -> None:
    handler = Flaky(99)
    policy = None if of_action is None else {"max_attempts": of_action, "initial": "PT0S"}
    runtime.registry.action("try", retry=policy)(handler)
    own = {} if of_node is None else {"retry": {"max_attempts": of_node, "initial": "PT0S"}}
    ulid = await runtime.begun(chain(action("one", "try", **own)))
    await runtime.drive(runtime.process(), ulid)
    assert len(handler.seen) == expected
    assert len(await attempts(runtime, ulid)) == expected


async def test_a_time_out_is_repeated_too(runtime: Runtime) -> None:
    calls: list[int] = []

    async def slow_once(ctx: Any) -> int:
        calls.append(ctx.step.attempt)
        if ctx.step.attempt == 1:
            await asyncio.Event().wait()
        return 1

    runtime.registry.action("try", timeout=0.4, retry=AT_ONCE)(slow_once)
    ulid = await runtime.begun(chain(action("one", "try")))
    await runtime.drive(runtime.process(), ulid)
    rows = await attempts(runtime, ulid)
    assert [(r["status"], r["error_code"]) for r in rows] == [
        ("failed", "step_timed_out"),
        ("succeeded", None),
    ]
    assert calls == [1, 2]


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        ({"backoff": "constant", "initial": "PT10M", "max": "PT1H"}, [10, 10, 10]),
        ({"backoff": "linear", "initial": "PT10M", "max": "PT25M"}, [10, 20, 25]),
        ({"backoff": "exponential", "initial": "PT10M", "max": "PT30M"}, [10, 20, 30]),
        ({"backoff": "exponential", "initial": "PT1M", "factor": 3, "max": "P1D"}, [1, 3, 9]),
    ],
)
async def test_the_wait_between_attempts_grows_as_the_policy_says(
    runtime: Runtime, policy: dict[str, Any], delays: list[int]
) -> None:
    runtime.registry.action("try")(Flaky(99))
    node = action("one", "try", retry={"max_attempts": 4, **policy})
    ulid = await runtime.begun(chain(node))
    for _ in delays:
        await take_turn(runtime.process(), ulid)
        await runtime.jump(ulid)
    await take_turn(runtime.process(), ulid)
    rows = await attempts(runtime, ulid)
    assert [row["status"] for row in rows] == ["failed"] * 4
    planned = await runtime.planned(ulid)
    assert planned == pytest.approx([60 * minutes for minutes in delays], abs=5)


async def test_jitter_shortens_the_wait_by_no_more_than_its_share(runtime: Runtime) -> None:
    retry = {"max_attempts": 2, "initial": "PT100S", "jitter": 0.5}
    runtime.registry.action("try")(Flaky(99))
    version = await runtime.publish(chain(action("one", "try", retry=retry)))
    delays: set[float] = set()
    for _ in range(12):
        ulid = await runtime.start(version)
        await take_turn(runtime.process(), ulid)
        (delay,) = await runtime.planned(ulid)
        delays.add(round(delay, 1))
        assert 45 < delay <= 101
    assert len(delays) > 6


async def test_an_attempt_sees_the_input_of_the_first_whatever_has_changed(
    runtime: Runtime,
) -> None:
    handler = Flaky(1)
    runtime.registry.action("try")(handler)
    retry = {"max_attempts": 2, "initial": "PT1H"}
    now = "${ [trigger.n, state.n] }"
    document = chain(
        {"id": "set", "type": "set", "config": {"values": {"n": 5}}},
        action("one", "try", input={"value": now}, retry=retry),
    )
    ulid = await runtime.begun(document, {"n": 1})
    await take_turn(runtime.process(), ulid)
    await runtime.pool.execute(
        "UPDATE workflow_instances SET trigger_payload = '{\"n\": 2}' WHERE ulid = $1", ulid
    )
    await runtime.jump(ulid)
    await take_turn(runtime.process(), ulid)
    assert handler.seen == [[1, 5], [1, 5]]
    assert [r["input"] for r in await attempts(runtime, ulid)] == [{"value": [1, 5]}] * 2


async def test_an_input_that_is_cut_in_its_row_reaches_every_attempt_whole(
    runtime: Runtime,
) -> None:
    runtime.limit(Limits(), steps_input=50)
    handler = Flaky(2)
    runtime.registry.action("try")(handler)
    node = action("one", "try", input={"value": "${ trigger }"}, retry=AT_ONCE)
    long = {"text": "ü" * 60}
    ulid = await runtime.begun(chain(node), long)
    for _ in range(6):
        result = await take_turn(runtime.process(), ulid)
        if result.ended:
            break
        await runtime.jump(ulid)
    assert handler.seen == [long, long, long]
    rows = await attempts(runtime, ulid)
    assert [row["input"] for row in rows] == [{"cut": True, "bytes": 141}] * 3
    assert rows[2]["output"] == long
    kept = [
        r["data"]["config"] for r in await runtime.rows("journal", ulid) if "config" in r["data"]
    ]
    assert kept == [{"value": long}]


async def test_an_input_that_looks_like_a_cut_one_is_an_input(runtime: Runtime) -> None:
    handler = Flaky(1)
    runtime.registry.action("try")(lambda **given: handler.seen.append(given))
    ulid = await runtime.ran(chain(action("one", "try", input={"cut": True, "bytes": 7})))
    assert handler.seen == [{"cut": True, "bytes": 7}]
    assert (await runtime.step(ulid, "one"))["input"] == {"cut": True, "bytes": 7}


async def test_an_attempt_that_a_dead_worker_left_is_lost_and_the_next_sees_its_input(
    runtime: Runtime,
) -> None:
    handler = Flaky(0)
    runtime.registry.action("try")(handler)
    node = action("one", "try", input={"value": "${ trigger }"})
    ulid = await runtime.begun(chain(node), 7)
    process = runtime.process()
    process.runner.stop()
    with pytest.raises(RuntimeError, match="not started"):
        await take_turn(process, ulid)
    assert await runtime.steps(ulid) == [("trigger", 1, "succeeded"), ("one", 1, "running")]

    await runtime.finish(runtime.process(), ulid)

    first, second = await attempts(runtime, ulid)
    assert (first["status"], first["error_code"]) == ("lost", "worker_lost")
    assert (first["outcome"], first["finished_at"] is None) == (None, False)
    assert (second["status"], second["attempt"], second["output"]) == ("succeeded", 2, 7)
    assert "step_lost" in await runtime.journal(ulid)
