from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime

FAILING = {
    "missing key": "trigger.missing",
    "missing step": "steps.later.output",
    "missing state": "state.nothing",
    "division by zero": "1 / trigger.zero",
    "overflow": "9223372036854775807 + trigger.n",
    "beyond JSON": "9007199254740991 + trigger.n",
    "not a number": "0.0 / trigger.zero",
    "wrong types": "trigger.n + trigger.text",
    "index": "trigger.list[5]",
    "no JSON": "type(trigger.n)",
    "bytes": "bytes(trigger.text)",
    "order of an object": "trigger.object.map(k, k)",
    "iterations": "trigger.many.map(x, trigger.many.map(y, y)).size()",
    "too large": "trigger.many.all(x, x in trigger.many)",
    "no number": "int(trigger.text)",
}
PAYLOAD = {
    "n": 1,
    "zero": 0,
    "text": "text",
    "list": [1],
    "object": {"a": 1},
    "many": list(range(2_000)),
}


def node_of(kind: str, expression: str) -> dict[str, Any]:
    value = f"${{ {expression} }}"
    configs: dict[str, Any] = {
        "action": {"action": "never", "input": {"value": value}},
        "set": {"values": {"value": value}},
        "decision": {"on": value},
        "delay": {"for": value},
        "wait": {"event": "never", "match": {"value": value}},
        "end": {"output": value},
    }
    return {"id": "it", "type": kind, "config": configs[kind]}


@pytest.mark.parametrize("expression", FAILING.values(), ids=FAILING.keys())
async def test_an_expression_that_fails_fails_its_step_with_the_expression_in_the_message(
    runtime: Runtime, expression: str
) -> None:
    began = time.monotonic()
    ulid = await runtime.ran(chain(node_of("set", expression)), PAYLOAD)
    assert time.monotonic() - began < 5
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "expression_failed")
    assert (instance["failed_node_id"], instance["current_node_id"]) == ("it", "it")
    assert expression in instance["failure_message"]
    step = await runtime.step(ulid, "it")
    assert (step["status"], step["error_retryable"], step["attempt"]) == ("failed", False, 1)
    assert step["error_message"] == instance["failure_message"]


@pytest.mark.parametrize("kind", ["action", "set", "decision", "delay", "wait", "end"])
@pytest.mark.parametrize("leads_on", [True, False])
async def test_every_node_type_fails_or_leads_on_when_its_config_cannot_be_worked_out(
    runtime: Runtime, kind: str, leads_on: bool
) -> None:
    runtime.registry.action("never", retry={"max_attempts": 5})(lambda value: value)
    after = {"id": "after", "type": "end", "config": {"output": "${ steps.it.outcome }"}}
    edges: list[Any] = [("trigger", "it")]
    if leads_on and kind != "end":
        edges.append({"from": "it", "to": "after", "on": "failure"})
    document = graph(node_of(kind, "trigger.missing"), after, edges=edges)
    ulid = await runtime.ran(document, {})
    step = await runtime.step(ulid, "it")
    assert (step["status"], step["outcome"], step["error_code"]) == (
        "failed",
        "failure",
        "expression_failed",
    )
    assert (step["attempt"], step["started_at"], step["input"]) == (1, None, None)
    instance = await runtime.instance(ulid)
    if leads_on and kind != "end":
        assert (instance["status"], instance["current_node_id"]) == ("completed", "after")
        assert (await runtime.step(ulid, "after"))["output"] == "failure"
    else:
        assert (instance["status"], instance["failed_node_id"]) == ("failed", "it")
    assert await runtime.rows("waits", ulid) == []


async def test_an_action_that_cannot_begin_yet_is_worked_out_when_it_can(runtime: Runtime) -> None:
    document = chain(action("it", "late", input={"value": "${ trigger.missing }"}))
    ulid = await runtime.begun(document, {})
    await runtime.finish(runtime.process(), ulid)
    assert (await runtime.step(ulid, "it"))["status"] == "scheduled"
    runtime.registry.action("late")(lambda value: value)
    await runtime.finish(runtime.process(), ulid)
    step = await runtime.step(ulid, "it")
    assert (step["status"], step["error_code"]) == ("failed", "expression_failed")
    assert (await runtime.instance(ulid))["status"] == "failed"


async def test_names_stand_for_what_they_say(runtime: Runtime) -> None:
    runtime.registry.action("double")(lambda n: n * 2)
    names = {
        "trigger": "${ trigger }",
        "outputs": "${ [steps.one.output, steps.two.output, steps['two'].outcome] }",
        "all": "${ steps.exists(id, id == 'one') && !(has(steps.three)) }",
        "state": "${ state }",
        "instance": "${ instance.id }",
        "subject": "${ subject }",
    }
    document = chain(
        action("one", "double", input={"n": "${ trigger.n }"}),
        action("two", "double", input={"n": "${ steps.one.output }"}),
        {"id": "set", "type": "set", "config": {"values": {"n": 1}}},
        {"id": "end", "type": "end", "config": {"output": names}},
    )
    ulid = await runtime.ran(document, {"n": 2})
    assert (await runtime.step(ulid, "end"))["output"] == {
        "trigger": {"n": 2},
        "outputs": [4, 8, "success"],
        "all": True,
        "state": {"n": 1},
        "instance": ulid,
        "subject": None,
    }


@pytest.mark.parametrize("amount", [200, 200.5])
async def test_numbers_are_json_numbers_whatever_their_form(
    runtime: Runtime, amount: float
) -> None:
    values = {
        "times": "${ trigger.amount * 1.5 }",
        "twice": "${ trigger.amount * 2 }",
        "next": "${ trigger.amount + 1 }",
        "more": "${ trigger.amount > 100.5 }",
        "same": "${ trigger.amount == 200 }",
        "first": "${ trigger.items[0] }",
    }
    end = {"id": "end", "type": "end", "config": {"output": values}}
    ulid = await runtime.ran(chain(end), {"amount": amount, "items": ["a"]})
    assert (await runtime.step(ulid, "end"))["output"] == {
        "times": amount * 1.5,
        "twice": amount * 2,
        "next": amount + 1,
        "more": True,
        "same": amount == 200,
        "first": "a",
    }
