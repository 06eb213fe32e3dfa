from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.driving.turns import take_turn
from tests.execution.runtime import chain, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


def delay(**config: Any) -> dict[str, Any]:
    return {"id": "pause", "type": "delay", "config": config}


END = {"id": "end", "type": "end", "config": {}}


async def test_a_delay_waits_in_a_row_that_says_until_when(runtime: Runtime) -> None:
    ulid = await runtime.begun(chain(delay(**{"for": "PT1H"}), END))
    result = await take_turn(runtime.process(), ulid)
    assert (result.status, result.node, result.ended, result.more) == (
        "waiting",
        "pause",
        False,
        False,
    )
    assert result.delay == pytest.approx(3_600, abs=5)

    (wait,) = await runtime.rows("waits", ulid)
    step = await runtime.step(ulid, "pause")
    assert (wait["kind"], wait["status"], wait["step_run_id"]) == ("timer", "pending", step["id"])
    assert wait["due_at"] - wait["created_at"] == pytest.approx(
        timedelta(hours=1), abs=timedelta(seconds=5)
    )
    assert (wait["event_key"], wait["match"], wait["condition"], wait["outcome"]) == (None,) * 4
    assert (wait["claim_token"], wait["fired_at"]) == (None, None)
    assert (step["status"], step["outcome"], step["finished_at"]) == ("waiting", None, None)
    assert step["started_at"] is not None
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("waiting", "pause")
    assert await runtime.journal(ulid) == ["started", "step_passed", "wait_opened"]


async def test_a_turn_that_comes_too_early_changes_nothing(runtime: Runtime) -> None:
    ulid = await runtime.begun(chain(delay(**{"for": "PT1H"}), END))
    process = runtime.process()
    await take_turn(process, ulid)
    before = await runtime.instance(ulid)
    for deps in (process, runtime.process()):
        result = await take_turn(deps, ulid)
        assert (result.progressed, result.stuck, result.more) == (False, False, False)
    assert await runtime.instance(ulid) == before


async def test_when_its_time_has_come_the_line_goes_on(runtime: Runtime) -> None:
    ulid = await runtime.begun(chain(delay(**{"for": "PT0.05S"}), END))
    result = await runtime.drive(runtime.process(), ulid)
    assert result.status == "completed"
    (wait,) = await runtime.rows("waits", ulid)
    assert wait["status"] == "fired"
    assert wait["due_at"] <= wait["fired_at"] == wait["claimed_at"] == wait["updated_at"]
    fired = (await runtime.rows("journal", ulid))[3]
    assert (fired["kind"], fired["writer"]) == ("wait_fired", wait["claim_token"])
    assert (fired["data"]["wait"], fired["data"]["outcome"]) == (wait["id"], "success")
    step = await runtime.step(ulid, "pause")
    assert (step["status"], step["outcome"], step["output"]) == ("succeeded", "success", None)
    assert (await runtime.path(ulid))[1] == ("pause", "success", "end", "plain")


@pytest.mark.parametrize("config", [{"for": "PT0S"}, {"until": "2020-02-29T12:00:00Z"}])
async def test_a_delay_that_is_over_already_opens_and_fires_in_one_append(
    runtime: Runtime, config: dict[str, Any]
) -> None:
    ulid = await runtime.ran(chain(delay(**config), END))
    assert (await runtime.instance(ulid))["status"] == "completed"
    (wait,) = await runtime.rows("waits", ulid)
    assert (wait["status"], wait["created_at"]) == ("fired", wait["fired_at"])
    assert (await runtime.journal(ulid))[2:4] == ["wait_opened", "wait_fired"]


async def test_a_time_with_an_offset_is_kept_in_utc(runtime: Runtime) -> None:
    ulid = await runtime.begun(chain(delay(until="2999-12-31T23:30:00.5-01:00"), END))
    result = await take_turn(runtime.process(), ulid)
    (wait,) = await runtime.rows("waits", ulid)
    due = datetime(3000, 1, 1, 0, 30, 0, 500_000, tzinfo=UTC)
    assert wait["due_at"] == due
    assert result.delay is not None
    assert result.delay == pytest.approx((due - wait["created_at"]).total_seconds(), abs=5)
    opened = (await runtime.rows("journal", ulid))[2]
    assert opened["data"]["due_at"] == "3000-01-01T00:30:00.500000+00:00"


@pytest.mark.parametrize(
    ("config", "payload"),
    [
        ({"for": "${ trigger }"}, "PT2H"),
        ({"for": "PT${ trigger }H"}, 2),
    ],
)
async def test_the_time_may_come_from_a_template(
    runtime: Runtime, config: dict[str, Any], payload: Any
) -> None:
    ulid = await runtime.begun(chain(delay(**config), END), payload)
    result = await take_turn(runtime.process(), ulid)
    assert result.delay == pytest.approx(7_200, abs=5)


async def test_the_time_is_worked_out_once_and_kept(runtime: Runtime) -> None:
    ulid = await runtime.begun(chain(delay(**{"for": "PT1H"}), END))
    await take_turn(runtime.process(), ulid)
    (before,) = await runtime.rows("waits", ulid)
    await runtime.tell(ulid, "event", None)
    await take_turn(runtime.process(), ulid)
    (after,) = await runtime.rows("waits", ulid)
    assert after["due_at"] == before["due_at"]
    assert (await runtime.journal(ulid))[-1] == "inbox_applied"


@pytest.mark.parametrize(
    ("config", "payload"),
    [
        ({"for": "${ trigger }"}, "an hour"),
        ({"for": "${ trigger }"}, "P1M"),
        ({"for": "${ trigger }"}, "-PT1H"),
        ({"for": "${ trigger }"}, 3_600),
        ({"for": "${ trigger }"}, None),
        ({"for": "${ trigger }"}, "P36501D"),
        ({"until": "${ trigger }"}, "2030-01-01T00:00:00"),
        ({"until": "${ trigger }"}, "2030-02-30T00:00:00Z"),
        ({"until": "${ trigger }"}, "0001-01-01T00:00:00+23:59"),
        ({"until": "${ trigger }"}, {}),
        ({"for": "${ trigger.missing }"}, {}),
    ],
)
async def test_a_time_that_is_none_fails_the_step(
    runtime: Runtime, config: dict[str, Any], payload: Any
) -> None:
    late = {"id": "late", "type": "end", "config": {}}
    failure = {"from": "pause", "to": "late", "on": "failure"}
    edges: list[Any] = [("trigger", "pause"), ("pause", "end")]
    for more, status, node in (([], "failed", "pause"), ([failure], "completed", "late")):
        document = graph(delay(**config), END, late, edges=[*edges, *more])
        ulid = await runtime.ran(document, payload)
        instance = await runtime.instance(ulid)
        assert (instance["status"], instance["current_node_id"]) == (status, node)
        step = await runtime.step(ulid, "pause")
        assert (step["status"], step["error_code"]) == ("failed", "expression_failed")
        assert await runtime.rows("waits", ulid) == []


async def test_the_longest_delay_ends_where_time_does(runtime: Runtime) -> None:
    for config in ({"for": "P36500D"}, {"until": "9999-12-31T23:59:59Z"}):
        ulid = await runtime.begun(chain(delay(**config), END))
        result = await take_turn(runtime.process(), ulid)
        assert (result.status, result.stuck) == ("waiting", False)
        assert result.delay is not None
        assert result.delay > 3_000_000_000
