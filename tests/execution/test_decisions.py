from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.execution.runtime import graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


def deciding(config: dict[str, Any], *edges: dict[str, Any]) -> dict[str, Any]:
    ends = [{"id": e["to"], "type": "end", "config": {}} for e in edges]
    node = {"id": "choose", "type": "decision", "config": config}
    leaving = [{"from": "choose", **edge} for edge in edges]
    return graph(node, *ends, edges=[("trigger", "choose"), *leaving])


LEFT, RIGHT = {"to": "left", "on": "left"}, {"to": "right", "on": "right"}
ELSE = {"to": "otherwise"}


@pytest.mark.parametrize(
    ("on", "payload", "outcome"),
    [
        ("${ trigger }", "left", "left"),
        ("${ trigger ? 'right' : 'left' }", True, "right"),
        ("${ trigger }", True, "true"),
        ("${ trigger }", 7, "7"),
        ("${ trigger }", 1.5, "1.5"),
        ("le${ trigger }", "ft", "left"),
        ("left", None, "left"),
    ],
)
async def test_the_text_of_the_expression_is_the_outcome(
    runtime: Runtime, on: str, payload: Any, outcome: str
) -> None:
    ulid = await runtime.ran(deciding({"on": on}, LEFT, RIGHT, ELSE), payload)
    to = outcome if outcome in ("left", "right") else "otherwise"
    by = "plain" if to == "otherwise" else "outcome"
    assert (await runtime.path(ulid))[1] == ("choose", outcome, to, by)
    step = await runtime.step(ulid, "choose")
    assert (step["status"], step["outcome"], step["attempt"]) == ("succeeded", outcome, 1)


async def test_without_an_expression_the_edges_decide(runtime: Runtime) -> None:
    small = {"to": "small", "when": {"field": "trigger", "op": "lt", "value": 10}}
    document = deciding({}, small, ELSE)
    for payload, taken in ((1, ("small", "condition")), (10, ("otherwise", "plain"))):
        ulid = await runtime.ran(document, payload)
        assert (await runtime.path(ulid))[1] == ("choose", "success", *taken)


@pytest.mark.parametrize(
    ("config", "edges", "outcome"),
    [
        ({"on": "${ trigger }"}, [LEFT, RIGHT], "up"),
        ({}, [{"to": "a", "when": "false"}], "success"),
    ],
)
async def test_a_decision_without_a_fitting_edge_fails_the_instance(
    runtime: Runtime, config: dict[str, Any], edges: list[Any], outcome: str
) -> None:
    ulid = await runtime.ran(deciding(config, *edges), "up")
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "no_edge")
    assert (instance["failed_node_id"], instance["current_node_id"]) == ("choose", "choose")
    assert f"no edge of decision 'choose' fits outcome '{outcome}'" in instance["failure_message"]
    assert (await runtime.path(ulid))[1] == ("choose", outcome, None, "none")
    assert await runtime.journal(ulid) == ["started", "step_passed", "step_passed", "failed"]
    assert await runtime.steps(ulid) == [
        ("trigger", 1, "succeeded"),
        ("choose", 1, "succeeded"),
    ]


@pytest.mark.parametrize(
    ("on", "payload"),
    [
        ("${ trigger.nope }", {"n": 1}),
        ("${ 1 / trigger.n }", {"n": 0}),
        ("${ trigger }", None),
        ("${ trigger }", ""),
        ("${ trigger }", "x" * 33),
        ("${ trigger }", {"n": 1}),
        ("${ trigger }", [1]),
    ],
)
async def test_an_expression_without_an_outcome_fails_the_step(
    runtime: Runtime, on: str, payload: Any
) -> None:
    failure = {"to": "failed", "on": "failure"}
    for edges, status, current in (
        ([LEFT, ELSE], "failed", "choose"),
        ([LEFT, failure], "completed", "failed"),
    ):
        ulid = await runtime.ran(deciding({"on": on}, *edges), payload)
        instance = await runtime.instance(ulid)
        assert (instance["status"], instance["current_node_id"]) == (status, current)
        step = await runtime.step(ulid, "choose")
        assert (step["status"], step["error_code"]) == ("failed", "expression_failed")
        assert (step["outcome"], step["error_retryable"]) == ("failure", False)
        assert step["error_message"]
