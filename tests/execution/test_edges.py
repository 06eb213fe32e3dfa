from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapter.errors import StepError
from adapter.execution.door import Outcome
from tests.execution.runtime import action, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime

ENDS = ("a", "b", "c", "d")


def forked(node: dict[str, Any], *edges: dict[str, Any]) -> dict[str, Any]:
    """A document in which ``node`` comes first and leads to some of the end nodes a, b, c, d."""
    ends = [{"id": end, "type": "end", "config": {}} for end in ENDS]
    leaving = [{"from": node["id"], **edge} for edge in edges]
    return graph(node, *ends, edges=[("trigger", node["id"]), *leaving])


@pytest.fixture
def naming(runtime: Runtime) -> Runtime:
    @runtime.registry.action("name")
    async def name(outcome: str, output: Any = None) -> Outcome | Any:
        if outcome == "failure":
            raise StepError("no_luck", "not today", retryable=False)
        return Outcome(outcome, output) if outcome else output

    return runtime


def naming_node(outcome: str, output: Any = None) -> dict[str, Any]:
    return action("fork", "name", input={"outcome": outcome, "output": output})


PLAIN_A = {"to": "a"}
ON_B = {"to": "b", "on": "approved"}
WHEN_C = {"to": "c", "when": {"field": "steps.fork.output", "op": "gt", "value": 5}}
WHEN_D = {"to": "d", "when": "steps.fork.output > 1"}
ON_FAILURE_D = {"to": "d", "on": "failure"}


@pytest.mark.parametrize(
    ("outcome", "output", "edges", "taken"),
    [
        ("approved", 9, [PLAIN_A, WHEN_C, ON_B], ("b", "outcome", 3)),
        ("", 9, [PLAIN_A, WHEN_C, ON_B], ("c", "condition", 2)),
        ("", 9, [PLAIN_A, WHEN_D, WHEN_C], ("d", "condition", 2)),
        ("", 2, [WHEN_C, WHEN_D], ("d", "condition", 2)),
        ("", 0, [WHEN_C, WHEN_D, PLAIN_A], ("a", "plain", 3)),
        ("other", 0, [ON_B, PLAIN_A], ("a", "plain", 2)),
        ("other", 0, [ON_B, WHEN_C], (None, "none", None)),
        ("success", 0, [PLAIN_A, {"to": "c", "on": "success"}], ("c", "outcome", 2)),
    ],
)
async def test_outcome_comes_before_condition_and_condition_before_plain(
    naming: Runtime, outcome: str, output: Any, edges: list[Any], taken: tuple[Any, ...]
) -> None:
    ulid = await naming.ran(forked(naming_node(outcome, output), *edges))
    journal = await naming.rows("journal", ulid)
    (left,) = (row["data"] for row in journal if row["kind"] == "step_succeeded")
    assert left["outcome"] == (outcome or "success")
    assert (left["edge"]["to"], left["edge"]["by"], left["edge"]["index"]) == taken
    instance = await naming.instance(ulid)
    assert instance["status"] == "completed"
    assert instance["current_node_id"] == (taken[0] or "fork")
    assert (await naming.step(ulid, "fork"))["outcome"] == (outcome or "success")


async def test_a_failure_takes_its_own_edge_and_the_instance_goes_on(naming: Runtime) -> None:
    ulid = await naming.ran(forked(naming_node("failure"), PLAIN_A, ON_FAILURE_D))
    instance = await naming.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("completed", "d")
    assert (instance["failure_code"], instance["failed_node_id"]) == (None, None)
    step = await naming.step(ulid, "fork")
    assert (step["status"], step["outcome"], step["error_code"]) == ("failed", "failure", "no_luck")
    assert (step["error_message"], step["error_retryable"]) == ("not today", False)
    assert (await naming.path(ulid))[1:] == [
        ("fork", "failure", "d", "outcome"),
        ("d", "success", None, "none"),
    ]


@pytest.mark.parametrize("edges", [[PLAIN_A], [{"to": "a", "when": "true"}, ON_B], []])
async def test_no_other_edge_swallows_a_failure(naming: Runtime, edges: list[Any]) -> None:
    ulid = await naming.ran(forked(naming_node("failure"), *edges))
    instance = await naming.instance(ulid)
    assert (instance["status"], instance["current_node_id"]) == ("failed", "fork")
    assert (instance["failure_code"], instance["failure_message"]) == ("no_luck", "not today")
    assert instance["failed_node_id"] == "fork"
    assert instance["ended_at"] is not None
    assert await naming.journal(ulid) == [
        "started",
        "step_passed",
        "step_started",
        "step_failed",
        "failed",
    ]
    assert (await naming.path(ulid))[-1] == ("fork", "failure", None, "none")


async def test_what_failed_is_visible_to_the_nodes_that_follow(naming: Runtime) -> None:
    seen = "${ [steps.fork.outcome, steps.fork.output] }"
    end = {"id": "after", "type": "end", "config": {"output": seen}}
    document = graph(
        naming_node("failure"),
        end,
        edges=[("trigger", "fork"), {"from": "fork", "to": "after", "on": "failure"}],
    )
    ulid = await naming.ran(document)
    assert (await naming.step(ulid, "after"))["output"] == ["failure", None]


@pytest.mark.parametrize(
    "condition", ["1 / 0 == 1", "steps.nowhere.output == 1", "state.missing.deeper > 1"]
)
async def test_a_condition_that_cannot_be_tested_fails_the_instance_there(
    naming: Runtime, condition: str
) -> None:
    document = forked(naming_node(""), {"to": "a", "when": condition}, {"to": "b"}, ON_FAILURE_D)
    ulid = await naming.ran(document)
    instance = await naming.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "expression_failed")
    assert (instance["failed_node_id"], instance["current_node_id"]) == ("fork", "fork")
    assert condition in instance["failure_message"]
    assert (await naming.step(ulid, "fork"))["status"] == "succeeded"


async def test_conditions_after_the_one_that_holds_are_not_tested(naming: Runtime) -> None:
    document = forked(naming_node("", 9), WHEN_C, {"to": "a", "when": "1 / 0 == 1"}, {"to": "b"})
    ulid = await naming.ran(document)
    assert (await naming.instance(ulid))["current_node_id"] == "c"


async def test_a_set_node_leaves_by_the_values_that_it_just_wrote(runtime: Runtime) -> None:
    node = {"id": "fork", "type": "set", "config": {"values": {"n": "${ trigger + 1 }"}}}
    by_tree = {"to": "a", "when": {"field": "state.n", "op": "eq", "value": 2}}
    ulid = await runtime.ran(forked(node, by_tree, {"to": "b"}), 1)
    assert (await runtime.instance(ulid))["current_node_id"] == "a"


async def test_the_trigger_may_fork_too(runtime: Runtime) -> None:
    ends: list[dict[str, Any]] = [{"id": end, "type": "end", "config": {}} for end in ("a", "b")]
    edges = [{"from": "trigger", "to": "a", "when": "trigger.n == 1"}, ("trigger", "b")]
    for n, taken in ((1, "a"), (2, "b")):
        ulid = await runtime.ran(graph(*ends, edges=edges), {"n": n})
        assert (await runtime.instance(ulid))["current_node_id"] == taken
