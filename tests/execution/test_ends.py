from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapter.settings import Limits
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


def end(**config: Any) -> dict[str, Any]:
    return {"id": "end", "type": "end", "config": config}


async def test_an_end_completes_the_instance_and_keeps_its_output(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(end(output={"n": "${ trigger.n }"})), {"n": 1})
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("completed", "end")
    step = await runtime.step(ulid, "end")
    assert (step["status"], step["outcome"], step["output"]) == ("succeeded", "success", {"n": 1})
    assert (await runtime.journal(ulid))[-2:] == ["step_passed", "completed"]


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        ({"code": "rejected", "message": "No: ${ trigger.why }"}, "rejected", "No: late"),
        ({"message": "${ trigger.n }"}, "step_failed", "1"),
        ({"message": "${ trigger.none }"}, "step_failed", "ended at 'end'"),
        ({"code": "rejected"}, "rejected", "ended at 'end'"),
        ({}, "step_failed", "ended at 'end'"),
    ],
)
async def test_an_end_may_fail_the_instance_with_a_code_and_a_message(
    runtime: Runtime, config: dict[str, Any], code: str, message: str
) -> None:
    payload = {"why": "late", "n": 1, "none": None}
    ulid = await runtime.ran(chain(end(status="failed", output="kept", **config)), payload)
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("failed", "end")
    assert (instance["failure_code"], instance["failure_message"]) == (code, message)
    assert instance["failed_node_id"] == "end"
    assert instance["ended_at"] is not None
    step = await runtime.step(ulid, "end")
    assert (step["status"], step["error_code"], step["output"]) == ("succeeded", None, "kept")
    assert (await runtime.journal(ulid))[-2:] == ["step_passed", "failed"]


async def test_an_end_may_cancel_the_instance(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(end(status="cancelled", message="not needed")))
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("cancelled", "end")
    assert (instance["failure_code"], instance["failed_node_id"]) == (None, None)
    assert instance["ended_at"] is not None
    assert (await runtime.journal(ulid))[-2:] == ["step_passed", "cancelled"]


@pytest.mark.parametrize("output", [None, False, 0, "", [], {}, "text", 1.5, {"a": [None]}])
async def test_any_json_value_can_be_the_output(runtime: Runtime, output: Any) -> None:
    ulid = await runtime.ran(chain(end(output="${ trigger }")), output)
    assert (await runtime.step(ulid, "end"))["output"] == output


@pytest.mark.parametrize("field", ["output", "message"])
async def test_an_end_whose_values_cannot_be_worked_out_fails_the_instance(
    runtime: Runtime, field: str
) -> None:
    ulid = await runtime.ran(chain(end(**{field: "${ trigger.missing }"})), {})
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "expression_failed")
    assert instance["failed_node_id"] == "end"
    assert (await runtime.step(ulid, "end"))["status"] == "failed"


async def test_an_output_above_its_limit_fails_the_instance(runtime: Runtime) -> None:
    runtime.limit(Limits(max_output_bytes=1024))
    ulid = await runtime.ran(chain(end(output=["${ trigger }", "${ trigger }"])), "x" * 600)
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "output_too_large")
    assert instance["failure_message"] == (
        "end 'end' has an output of 1207 bytes, the limit is 1024"
    )
    step = await runtime.step(ulid, "end")
    assert (step["status"], step["output"]) == ("failed", None)


async def test_a_message_is_kept_up_to_a_length(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(end(status="failed", message="${ trigger }")), "y" * 9_000)
    assert (await runtime.instance(ulid))["failure_message"] == "y" * 4_000


async def test_the_first_end_that_is_reached_is_the_end(runtime: Runtime) -> None:
    @runtime.registry.action("never")
    async def never() -> None:
        raise AssertionError("not reached")

    document = graph(
        {"id": "choose", "type": "decision", "config": {}},
        end(output=1),
        action("other", "never"),
        edges=[("trigger", "choose"), ("choose", "end")],
    )
    ulid = await runtime.ran(document)
    assert [node for node, _, _ in await runtime.steps(ulid)] == ["trigger", "choose", "end"]
