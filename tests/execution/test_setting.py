from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapter.settings import Limits
from tests.execution.runtime import chain, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


def set_node(node: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"id": node, "type": "set", "config": {"values": values}}


SHOW = {"id": "show", "type": "end", "config": {"output": "${ state }"}}


async def shown(runtime: Runtime, *nodes: dict[str, Any], payload: Any = None) -> Any:
    ulid = await runtime.ran(chain(*nodes, SHOW), payload)
    return (await runtime.step(ulid, "show"))["output"]


async def test_values_are_merged_into_the_state_and_the_latest_wins(runtime: Runtime) -> None:
    state = await shown(
        runtime,
        set_node("one", {"a": 1, "b": {"deep": [1, 2]}}),
        set_node("two", {"b": "${ state.b.deep[1] }", "c": None}),
    )
    assert state == {"a": 1, "b": 2, "c": None}


async def test_all_values_of_a_node_see_the_state_before_it(runtime: Runtime) -> None:
    state = await shown(
        runtime,
        set_node("one", {"a": 1, "b": 2}),
        set_node("swap", {"a": "${ state.b }", "b": "${ state.a }"}),
    )
    assert state == {"a": 2, "b": 1}


async def test_values_keep_their_types_and_texts_are_filled_in(runtime: Runtime) -> None:
    values = {
        "number": "${ trigger.n * 1.5 }",
        "text": "n is ${ trigger.n }, list is ${ trigger.list }, nothing is '${ trigger.none }'",
        "list": ["${ trigger.list }", "${ size(trigger.list) }"],
        "escaped": "$${ trigger.n }",
        "flag": "${ trigger.n > 100.5 }",
    }
    payload = {"n": 200, "list": [1, {"b": 1, "a": 2}], "none": None}
    assert await shown(runtime, set_node("one", values), payload=payload) == {
        "number": 300,
        "text": 'n is 200, list is [1,{"a":2,"b":1}], nothing is \'\'',
        "list": [[1, {"b": 1, "a": 2}], 2],
        "escaped": "${ trigger.n }",
        "flag": True,
    }


async def test_the_journal_holds_what_was_set_and_the_row_does_not(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(set_node("one", {"a": "${ trigger + 1 }"})), 1)
    passed = next(row for row in await runtime.rows("journal", ulid) if row["node_id"] == "one")
    assert passed["kind"] == "step_passed"
    assert passed["data"]["set"] == {"a": 2}
    step = await runtime.step(ulid, "one")
    assert (step["status"], step["outcome"], step["output"]) == ("succeeded", "success", None)


async def test_a_value_that_cannot_be_worked_out_fails_the_step_and_sets_nothing(
    runtime: Runtime,
) -> None:
    show = {"id": "show", "type": "end", "config": {"output": "${ state }"}}
    document = graph(
        set_node("one", {"a": 1}),
        set_node("two", {"a": 2, "b": "${ trigger.missing }"}),
        show,
        edges=[("trigger", "one"), ("one", "two"), {"from": "two", "to": "show", "on": "failure"}],
    )
    ulid = await runtime.ran(document, {})
    step = await runtime.step(ulid, "two")
    assert (step["status"], step["error_code"]) == ("failed", "expression_failed")
    assert "trigger.missing" in step["error_message"]
    assert (await runtime.step(ulid, "show"))["output"] == {"a": 1}


@pytest.mark.parametrize("on_failure", [True, False])
async def test_a_state_above_its_limit_fails_the_step(runtime: Runtime, on_failure: bool) -> None:
    runtime.limit(Limits(max_state_bytes=2048))
    full = {"text": "x" * 1500}
    edges: list[Any] = [("trigger", "one"), ("one", "two")]
    if on_failure:
        edges.append({"from": "two", "to": "show", "on": "failure"})
    document = graph(set_node("one", full), set_node("two", {"more": full}), SHOW, edges=edges)
    ulid = await runtime.ran(document)
    instance = await runtime.instance(ulid)
    step = await runtime.step(ulid, "two")
    assert (step["status"], step["error_code"]) == ("failed", "state_too_large")
    assert "set 'two' makes the state" in step["error_message"]
    assert "the limit is 2048" in step["error_message"]
    if on_failure:
        assert (instance["status"], instance["current_node_id"]) == ("completed", "show")
        assert (await runtime.step(ulid, "show"))["output"] == full
    else:
        assert (instance["status"], instance["failure_code"]) == ("failed", "state_too_large")
        assert instance["failed_node_id"] == "two"


async def test_values_that_replace_others_do_not_add_up(runtime: Runtime) -> None:
    runtime.limit(Limits(max_state_bytes=2048))
    nodes = [set_node(f"n{n}", {"text": str(n) * 1500}) for n in range(4)]
    assert await shown(runtime, *nodes) == {"text": "3" * 1500}


async def test_a_state_put_into_itself_again_and_again_fails_in_time(runtime: Runtime) -> None:
    nest = set_node("nest", {"inner": {"of": "${ state }"}})
    ulid = await runtime.ran(graph(nest, edges=[("trigger", "nest"), ("nest", "nest")]))
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "expression_failed")
    assert "nests deeper than 128 levels" in instance["failure_message"]
    assert (await runtime.step(ulid, "nest"))["status"] == "failed"
    assert 50 < instance["steps_count"] < 80


async def test_a_state_that_doubles_ends_at_its_limit(runtime: Runtime) -> None:
    double = set_node("double", {"text": "${ state.text + state.text }"})
    document = graph(
        set_node("begin", {"text": "x"}),
        double,
        edges=[("trigger", "begin"), ("begin", "double"), ("double", "double")],
    )
    ulid = await runtime.ran(document)
    instance = await runtime.instance(ulid)
    assert instance["failure_code"] in ("state_too_large", "expression_failed")
    assert (instance["status"], instance["failed_node_id"]) == ("failed", "double")


@pytest.mark.parametrize(
    "values",
    [
        {"text": "${ trigger.text }" * 10_000},
        {f"v{n}": "${ trigger.text + trigger.text }" for n in range(200)},
        {f"v{n}": "text: ${ trigger.many }" for n in range(200)},
    ],
)
async def test_a_config_that_makes_a_large_value_again_and_again_is_refused_in_time(
    runtime: Runtime, values: dict[str, Any]
) -> None:
    payload = {"text": "x" * 100_000, "many": ["y" * 100] * 2_000}
    ulid = await runtime.ran(chain(set_node("many", values)), payload)
    instance = await runtime.instance(ulid)
    assert instance["status"] == "failed"
    assert instance["failure_code"] in ("expression_failed", "state_too_large")


async def test_a_config_that_names_one_large_value_a_thousand_times_is_refused(
    runtime: Runtime,
) -> None:
    many = set_node("many", {"all": ["${ trigger }"] * 1000})
    for payload in ("x" * 100_000, list(range(100_000))):
        ulid = await runtime.ran(chain(many), payload)
        instance = await runtime.instance(ulid)
        assert (instance["status"], instance["failure_code"]) == ("failed", "expression_failed")
        assert "larger than 16 MB" in instance["failure_message"]
