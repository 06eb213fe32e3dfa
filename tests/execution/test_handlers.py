from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field

from adapter.execution.context import Actor, Reference
from adapter.execution.door import Outcome
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext
    from tests.execution.runtime import Runtime


class Permit(BaseModel):
    number: int
    issued: date


@dataclasses.dataclass
class Fee:
    amount: float


class Kind(StrEnum):
    NEW = "new"


async def test_plain_and_async_handlers_run_beside_the_loop_of_the_turns(runtime: Runtime) -> None:
    @runtime.registry.action("plain")
    def plain() -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return threading.current_thread().name

    @runtime.registry.action("async")
    async def coroutine() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    ulid = await runtime.ran(chain(action("one", "plain"), action("two", "async")))
    names = [(await runtime.step(ulid, node))["output"] for node in ("one", "two")]
    assert len({*names, threading.current_thread().name}) == 3


async def test_input_arrives_as_the_types_that_the_parameters_name(runtime: Runtime) -> None:
    seen: list[Any] = []

    @runtime.registry.action("record")
    def record(
        permit: Permit,
        fee: Fee,
        kind: Kind,
        days: Annotated[int, Field(ge=1)],
        tags: list[str],
        plain: Any,
        missing: str = "default",
    ) -> None:
        seen.extend([permit, fee, kind, days, tags, plain, missing])

    given = {
        "permit": {"number": "${ trigger.number }", "issued": "2026-05-04"},
        "fee": {"amount": "12.5"},
        "kind": "new",
        "days": "7",
        "tags": ["a"],
        "plain": {"any": [1.5, None]},
    }
    ulid = await runtime.ran(chain(action("one", "record", input=given)), {"number": "4711"})
    assert (await runtime.instance(ulid))["status"] == "completed"
    permit = Permit(number=4711, issued=date(2026, 5, 4))
    assert seen == [permit, Fee(12.5), Kind.NEW, 7, ["a"], {"any": [1.5, None]}, "default"]
    assert (await runtime.step(ulid, "one"))["input"] == {
        **given,
        "permit": {"number": "4711", "issued": "2026-05-04"},
    }


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "days: Field required"),
        ({"days": 0}, "days: Input should be greater than or equal to 1"),
        ({"days": 1, "dyas": 2}, "dyas: Extra inputs are not permitted"),
        ({"days": "soon"}, "days: Input should be a valid integer"),
    ],
)
async def test_input_that_does_not_fit_fails_the_step_at_once(
    runtime: Runtime, given: dict[str, Any], named: str
) -> None:
    @runtime.registry.action("record", retry={"max_attempts": 5, "initial": "PT0S"})
    async def record(days: Annotated[int, Field(ge=1)]) -> None:
        raise AssertionError("not reached")

    ulid = await runtime.ran(chain(action("one", "record", input=given)))
    (step,) = [s for s in await runtime.rows("step_runs", ulid) if s["node_id"] == "one"]
    assert (step["status"], step["error_code"]) == ("failed", "invalid_input")
    assert (step["error_retryable"], step["input"]) == (False, given)
    assert "does not fit action 'record'" in step["error_message"]
    assert named in step["error_message"]
    instance = await runtime.instance(ulid)
    assert (instance["status"], instance["failure_code"]) == ("failed", "invalid_input")


async def test_the_context_tells_instance_and_step(runtime: Runtime) -> None:
    seen: list[ActionContext] = []

    @runtime.registry.action("look")
    async def look(ctx: ActionContext) -> None:
        seen.append(ctx)

    document = chain(action("one", "look"), action("two", "look"))
    ulid = await runtime.ran(document, {"n": 1})
    rows = {row["node_id"]: row for row in await runtime.rows("step_runs", ulid)}
    key = await runtime.pool.fetchval(
        "SELECT d.key FROM workflow_definitions d JOIN workflow_instances i"
        " ON i.definition_id = d.id WHERE i.ulid = $1",
        ulid,
    )
    for ctx, node in zip(seen, ("one", "two"), strict=True):
        assert (ctx.instance.ulid, ctx.instance.key, ctx.instance.trigger) == (ulid, key, {"n": 1})
        assert (ctx.step.id, ctx.step.node) == (rows[node]["id"], node)
        assert (ctx.step.visit, ctx.step.attempt) == (1, 1)
        assert ctx.step.idempotency_key == rows[node]["idempotency_key"]
        assert (ctx.actor, ctx.subject) == (Actor("system"), None)


@pytest.mark.parametrize(
    ("mode", "columns", "reference"),
    [
        ("system", {"starter_type": "user", "starter_id": 7}, None),
        ("starter", {"starter_type": "user", "starter_id": 7}, Reference("user", 7)),
        ("starter", {"owner_type": "org", "owner_id": 8}, None),
        ("owner", {"owner_type": "org", "owner_id": 8}, Reference("org", 8)),
        ("owner", {"starter_type": "user", "starter_id": 7}, None),
    ],
)
async def test_the_context_tells_on_whose_behalf_the_handler_acts(
    runtime: Runtime, mode: str, columns: dict[str, Any], reference: Reference | None
) -> None:
    seen: list[Actor] = []
    runtime.registry.action("look")(lambda ctx: seen.append(ctx.actor))
    version = await runtime.publish(chain(action("one", "look")), actor_mode=mode)
    ulid = await runtime.start(version, **columns)
    await runtime.finish(runtime.process(), ulid)
    assert seen == [Actor(mode, reference)]


async def test_the_context_and_expressions_tell_the_subject(runtime: Runtime) -> None:
    seen: list[Any] = []
    runtime.registry.action("look")(lambda ctx, given: seen.extend([ctx.subject, given]))
    node = action("one", "look", input={"given": "${ subject }"})
    version = await runtime.publish(chain(node))
    big = 2**60 + 1
    ulid = await runtime.start(version, subject_key="permit", subject_type="Permit", subject_id=big)
    await runtime.finish(runtime.process(), ulid)
    expected = {"type": "Permit", "id": big, "key": "permit"}
    assert seen == [Reference("Permit", big, "permit"), expected]


async def test_the_logger_of_the_context_names_instance_node_and_attempt(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    @runtime.registry.action("log")
    def log(ctx: ActionContext) -> None:
        ctx.logger.warning("recorded %s", 7)

    with caplog.at_level(logging.INFO, "almanac.action"):
        ulid = await runtime.ran(chain(action("one", "log")))
    (record,) = [r for r in caplog.records if r.name == "almanac.action"]
    told: Any = record
    assert record.getMessage() == "recorded 7"
    assert (told.instance, told.node, told.attempt) == (ulid, "one", 1)


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_handler_may_name_the_outcome(runtime: Runtime, asynchronous: bool) -> None:
    async def judge() -> Outcome:
        return Outcome("approved", {"by": "Ada"})

    def judge_at_once() -> Outcome:
        return Outcome("approved", {"by": "Ada"})

    runtime.registry.action("judge")(judge if asynchronous else judge_at_once)
    ends: list[dict[str, Any]] = [
        {"id": end, "type": "end", "config": {}} for end in ("yes", "other")
    ]
    edges: list[Any] = [("trigger", "ask"), ("ask", "other")]
    edges.append({"from": "ask", "to": "yes", "on": "approved"})
    ulid = await runtime.ran(graph(action("ask", "judge"), *ends, edges=edges))
    step = await runtime.step(ulid, "ask")
    assert (step["status"], step["outcome"], step["output"]) == (
        "succeeded",
        "approved",
        {"by": "Ada"},
    )
    assert (await runtime.path(ulid))[1] == ("ask", "approved", "yes", "outcome")


@pytest.mark.parametrize(
    "name", ["failure", "", "1st", "a" * 33, "ja/nein", "approved\n", "é", None, 7, "a\0"]
)
async def test_an_outcome_that_no_edge_could_name_fails_the_step(
    runtime: Runtime, name: Any
) -> None:
    runtime.registry.action("judge", retry={"max_attempts": 3})(lambda: Outcome(name, 1))
    ulid = await runtime.ran(chain(action("ask", "judge")))
    step = await runtime.step(ulid, "ask")
    assert (step["status"], step["attempt"], step["error_code"]) == ("failed", 1, "invalid_output")
    assert "node 'ask' named the outcome" in step["error_message"]
    assert (await runtime.instance(ulid))["failure_code"] == "invalid_output"


async def test_handlers_of_many_instances_run_at_once(runtime: Runtime) -> None:
    together = 4
    meeting = threading.Barrier(together, timeout=10)

    @runtime.registry.action("meet")
    def meet() -> int:
        return meeting.wait()

    version = await runtime.publish(chain(action("one", "meet", timeout="PT10S")))
    process = runtime.process()
    ulids = [await runtime.start(version) for _ in range(together)]
    await asyncio.gather(*(runtime.finish(process, ulid) for ulid in ulids))
    places = [(await runtime.step(ulid, "one"))["output"] for ulid in ulids]
    assert sorted(places) == list(range(together))
