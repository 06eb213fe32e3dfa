"""Whoever knows the tables and the recipes of docs/records.md can tell of any instance where it is,
what it waits for, and why it took each edge.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings

from adapter.errors import StepError
from adapter.graph.compiled import compile_graph
from adapter.graph.expressions import EvaluationFailed
from adapter.interpreter.state import ENDED
from tests.eventually import eventually_async
from tests.execution.histories import written
from tests.execution.runtime import action, chain, graph, open_runtime
from tests.interpreter.random_graphs import MOVES, PAYLOADS, documents
from tests.records.recipes import statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from tests.execution.runtime import Runtime

WHERE = "Where is an instance?"
WAITING = "What is it waiting for?"
DOING = "What is it waiting for? (2)"
WHY = "Why did it take this edge?"
SEEN = "Why did it take this edge? (2)"

HOUR = {"id": "pause", "type": "delay", "config": {"for": "PT1H"}}
ASK = {
    "id": "ask",
    "type": "wait",
    "config": {
        "event": "permits.answered",
        "match": {"permit": "${ trigger.permit }"},
        "condition": {"field": "event.fee", "op": "gt", "value": 5},
        "timeout": "P1D",
    },
}


@pytest_asyncio.fixture
async def runtime(database_url: str) -> AsyncIterator[Runtime]:
    async with open_runtime(database_url) as runtime:
        yield runtime


async def ask(connection: Any, title: str, **values: object) -> list[dict[str, Any]]:
    rows = await connection.fetch(statement(title, **values))
    return [dict(row) for row in rows]


async def where(runtime: Runtime, ulid: str) -> tuple[Any, ...]:
    (row,) = await ask(runtime.pool, WHERE, ulid=ulid)
    return row["status"], row["node"], row["failure_code"], row["failed_node_id"]


async def waiting(runtime: Runtime, ulid: str) -> list[tuple[Any, ...]]:
    rows = await ask(runtime.pool, WAITING, ulid=ulid)
    return [(r["node"], r["kind"], r["event_key"], _json(r["match"])) for r in rows]


async def doing(runtime: Runtime, ulid: str) -> list[tuple[Any, ...]]:
    rows = await ask(runtime.pool, DOING, ulid=ulid)
    return [tuple(r[name] for name in ("what", "name", "status", "last_error")) for r in rows]


async def edges(runtime: Runtime, ulid: str) -> list[tuple[Any, ...]]:
    rows = await ask(runtime.pool, WHY, ulid=ulid)
    return [(r["node"], r["outcome"], r["next"], r["why"]) for r in rows]


def _json(value: str | None) -> Any:
    return None if value is None else orjson.loads(value)


async def test_an_instance_that_nobody_has_taken_up_yet(runtime: Runtime) -> None:
    ulid = await runtime.begun(chain(HOUR))
    assert await where(runtime, ulid) == ("pending", None, None, None)
    assert await waiting(runtime, ulid) == []
    assert await doing(runtime, ulid) == [("inbox", "start", "unapplied", None)]
    assert await edges(runtime, ulid) == []


async def test_an_instance_that_waits_for_a_time(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(HOUR))
    assert await where(runtime, ulid) == ("waiting", "pause", None, None)
    assert await waiting(runtime, ulid) == [("pause", "timer", None, None)]
    assert await doing(runtime, ulid) == []
    (row,) = await ask(runtime.pool, WAITING, ulid=ulid)
    assert row["time_left"].total_seconds() == pytest.approx(3_600, abs=30)
    assert row["since"] < row["due_at"]


async def test_an_instance_that_waits_for_an_event(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(ASK), {"permit": 4711})
    assert await where(runtime, ulid) == ("waiting", "ask", None, None)
    match = {"permit": 4711}
    assert await waiting(runtime, ulid) == [("ask", "event", "permits.answered", match)]
    (row,) = await ask(runtime.pool, WAITING, ulid=ulid)
    assert _json(row["condition"]) == {"field": "event.fee", "op": "gt", "value": 5}
    assert row["time_left"].total_seconds() == pytest.approx(86_400, abs=30)


async def test_an_instance_that_has_been_told_what_it_has_not_applied(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(ASK), {"permit": 4711})
    event = await runtime.emit("permits.answered", {"permit": 4711, "fee": 9})
    await runtime.deliver(ulid, event)
    assert (await where(runtime, ulid))[0] == "waiting"
    assert await doing(runtime, ulid) == [("inbox", "event", "unapplied", None)]


async def test_an_instance_whose_step_nobody_can_run(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(action("one", "elsewhere")))
    assert await where(runtime, ulid) == ("running", "one", None, None)
    assert await waiting(runtime, ulid) == []
    assert await doing(runtime, ulid) == [("step", "one", "scheduled", None)]


async def test_an_instance_between_two_attempts(runtime: Runtime) -> None:
    @runtime.registry.action("try", retry={"max_attempts": 2, "initial": "PT1M"})
    async def try_() -> None:
        raise StepError("card_declined", "no funds")

    ulid = await runtime.ran(chain(action("one", "try")))
    assert await where(runtime, ulid) == ("running", "one", None, None)
    assert await waiting(runtime, ulid) == []
    assert await doing(runtime, ulid) == [("step", "one", "retrying", "card_declined")]
    (row,) = await ask(runtime.pool, DOING, ulid=ulid)
    assert row["due"] is not None
    assert await edges(runtime, ulid) == [("trigger", "success", "one", "plain")]


async def test_an_instance_whose_step_runs(runtime: Runtime) -> None:
    began, go = threading.Event(), threading.Event()

    @runtime.registry.action("hold", timeout=30)
    def hold() -> None:
        began.set()
        go.wait(20)

    ulid = await runtime.begun(chain(action("one", "hold")))
    turn = asyncio.create_task(runtime.finish(runtime.process(), ulid))

    async def runs() -> None:
        assert began.is_set()

    try:
        await eventually_async(runs)
        assert await where(runtime, ulid) == ("running", "one", None, None)
        assert await waiting(runtime, ulid) == []
        assert await doing(runtime, ulid) == [("step", "one", "running", None)]
    finally:
        go.set()
        await turn
    assert await where(runtime, ulid) == ("completed", "one", None, None)


def judged() -> dict[str, Any]:
    """Takes an edge by outcome, one by condition and one because nothing else fits."""
    return graph(
        {"id": "choose", "type": "decision", "config": {"on": "${ trigger.side }"}},
        {"id": "left", "type": "set", "config": {"values": {"n": "${ trigger.n * 2 }"}}},
        {"id": "check", "type": "decision", "config": {}},
        {"id": "big", "type": "end", "config": {}},
        {"id": "small", "type": "end", "config": {"status": "cancelled"}},
        edges=[
            ("trigger", "choose"),
            {"from": "choose", "to": "left", "on": "left"},
            ("left", "check"),
            {"from": "check", "to": "big", "when": {"field": "state.n", "op": "gt", "value": 10}},
            ("check", "small"),
        ],
    )


async def test_an_instance_that_completed(runtime: Runtime) -> None:
    document = judged()
    ulid = await runtime.ran(document, {"side": "left", "n": 7})
    assert await where(runtime, ulid) == ("completed", "big", None, None)
    assert await waiting(runtime, ulid) == await doing(runtime, ulid) == []
    assert await edges(runtime, ulid) == [
        ("trigger", "success", "choose", "plain"),
        ("choose", "left", "left", "outcome"),
        ("left", "success", "check", "plain"),
        ("check", "success", "big", "condition"),
        ("big", "success", None, "none"),
    ]
    rows = await ask(runtime.pool, WHY, ulid=ulid)
    assert [_json(row["edge"]) for row in rows[:4]] == document["edges"][:4]
    seen = await ask(runtime.pool, SEEN, ulid=ulid, seq=rows[3]["seq"])
    assert {row["name"]: _json(row["value"]) for row in seen} == {
        "trigger": {"side": "left", "n": 7},
        "steps.trigger": {"outcome": "success", "output": {"side": "left", "n": 7}},
        "steps.choose": {"outcome": "left", "output": None},
        "steps.left": {"outcome": "success", "output": None},
        "steps.check": {"outcome": "success", "output": None},
        "state.n": 14,
    }


async def test_an_instance_that_was_cancelled_by_its_graph(runtime: Runtime) -> None:
    ulid = await runtime.ran(judged(), {"side": "left", "n": 1})
    assert await where(runtime, ulid) == ("cancelled", "small", None, None)
    assert await waiting(runtime, ulid) == await doing(runtime, ulid) == []
    assert (await edges(runtime, ulid))[3] == ("check", "success", "small", "plain")


async def test_an_instance_that_found_no_edge(runtime: Runtime) -> None:
    ulid = await runtime.ran(judged(), {"side": "up", "n": 1})
    assert await where(runtime, ulid) == ("failed", "choose", "no_edge", "choose")
    assert (await edges(runtime, ulid))[-1] == ("choose", "up", None, "none")


async def test_an_instance_whose_handler_failed(runtime: Runtime) -> None:
    @runtime.registry.action("try")
    async def try_() -> None:
        raise StepError("card_declined", "no funds")

    ulid = await runtime.ran(chain(action("one", "try"), HOUR))
    assert await where(runtime, ulid) == ("failed", "one", "card_declined", "one")
    assert await waiting(runtime, ulid) == await doing(runtime, ulid) == []
    assert (await edges(runtime, ulid))[-1] == ("one", "failure", None, "none")

    failure = {"from": "one", "to": "pause", "on": "failure"}
    document = graph(action("one", "try"), HOUR, edges=[("trigger", "one"), failure])
    ulid = await runtime.ran(document)
    assert await where(runtime, ulid) == ("waiting", "pause", None, None)
    assert (await edges(runtime, ulid))[-1] == ("one", "failure", "pause", "outcome")


async def test_an_instance_with_a_condition_that_could_not_be_tested(runtime: Runtime) -> None:
    document = chain({"id": "set", "type": "set", "config": {"values": {"n": 0}}}, HOUR)
    document["edges"][-1]["when"] = "1 / state.n == 1"
    ulid = await runtime.ran(document)
    assert await where(runtime, ulid) == ("failed", "set", "expression_failed", "set")
    assert (await edges(runtime, ulid))[-1] == ("set", "success", None, "none")


async def test_each_round_of_a_loop_is_explained_by_its_own_moment(runtime: Runtime) -> None:
    runtime.registry.action("double")(lambda n: n * 2)
    count = {"id": "count", "type": "set", "config": {"values": {"n": "${ state.n + 1 }"}}}
    document = graph(
        {"id": "begin", "type": "set", "config": {"values": {"n": 0}}},
        action("double", "double", input={"n": "${ state.n }"}),
        count,
        edges=[
            ("trigger", "begin"),
            ("begin", "double"),
            {"from": "double", "to": "count", "when": "steps.double.output < 4 && state.n < 3"},
            {"from": "count", "to": "count", "when": {"field": "state.n", "op": "eq", "value": 1}},
            ("count", "double"),
        ],
    )
    ulid = await runtime.ran(document)
    assert [why for *_, why in await edges(runtime, ulid)] == [
        "plain",
        "plain",
        "condition",
        "condition",
        "plain",
        "none",
    ]
    await _explain(runtime, document, ulid)


def test_any_instance_at_any_moment(database_url: str) -> None:
    with asyncio.Runner() as runner:
        context = open_runtime(database_url)
        runtime = runner.run(context.__aenter__())

        @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(documents(), PAYLOADS, MOVES)
        def check(document: dict[str, Any], trigger: dict[str, Any], moves: list[Any]) -> None:
            runner.run(_tell(runtime, document, trigger, moves))

        check()
        runner.run(context.__aexit__(None, None, None))


async def _tell(
    runtime: Runtime, document: dict[str, Any], trigger: dict[str, Any], moves: list[Any]
) -> None:
    ulid = None
    async for now in written(runtime, document, trigger, moves):
        ulid, state = now.ulid, now.state
        (place,) = await ask(now.connection, WHERE, ulid=ulid)
        assert (place["status"], place["node"]) == (state.status, state.current)
        assert place["steps_count"] == state.steps_count
        assert (place["ended_at"] is not None) is state.ended

        waits = await ask(now.connection, WAITING, ulid=ulid)
        assert sorted((w["node"], w["kind"], w["due_at"], w["event_key"]) for w in waits) == sorted(
            (w.node, w.kind, w.due_at, w.event) for w in state.waits.values()
        )
        steps = await ask(now.connection, DOING, ulid=ulid)
        assert sorted((s["name"], s["status"], s["attempt"]) for s in steps) == sorted(
            (s.node, s.status, s.attempt) for s in state.steps.values() if s.status != "waiting"
        )
        assert bool(waits or steps) is (state.status not in ENDED)
    assert ulid is not None
    await _explain(runtime, document, ulid)


async def _explain(runtime: Runtime, document: dict[str, Any], ulid: str) -> None:
    """Chooses every edge again, with nothing but what the recipes tell."""
    compiled = compile_graph(document)
    (place,) = await ask(runtime.pool, WHERE, ulid=ulid)
    for row in await ask(runtime.pool, WHY, ulid=ulid):
        node = compiled.nodes[row["node"]]
        names = _names(await ask(runtime.pool, SEEN, ulid=ulid, seq=row["seq"]))
        try:
            choice = node.choose(row["outcome"], names)
        except EvaluationFailed:
            assert (row["next"], row["why"]) == (None, "none")
            assert place["failure_code"] == "expression_failed"
            assert place["failed_node_id"] == row["node"]
            continue
        assert (row["next"], row["why"]) == (choice.to, choice.by)
        index = choice.edge_index
        assert _json(row["edge"]) == (None if index is None else document["edges"][index])


def _names(seen: Iterable[dict[str, Any]]) -> dict[str, Any]:
    names: dict[str, Any] = {"steps": {}, "state": {}, "subject": None, "instance": {}}
    for row in seen:
        kind, _, name = row["name"].partition(".")
        value = _json(row["value"])
        if name:
            names[kind][name] = value
        else:
            names[kind] = value
    return names
