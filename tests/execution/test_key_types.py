"""The same run from the first call to the last row, whatever the keys and names of the tables."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
import pytest_asyncio
from ulid import ULID

from adapter.client.almanac import Almanac
from adapter.errors import StepError
from adapter.records.migrating import upgrade
from adapter.services.matching import match_events
from adapter.services.morphs import Ref
from adapter.settings import Settings, TableNames
from tests.execution.runtime import Runtime, action, graph, open_runtime
from tests.records.databases import fresh_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from temporal_workflows.dev.stack import Stack

OTHER_NAMES = TableNames(**{name: f"my_{name}" for name in TableNames.model_fields})
GIVEN: dict[str, Any] = {
    "bigint": 4711,
    "uuid": UUID("01890000-0000-7000-8000-000000000001"),
    "ulid": "01J9ZQ3V0M4QF1S5W8E7R2T6YK",
    "string": "users/7",
}
CHOICES: dict[str, dict[str, Any]] = {
    "bigint, other names": {"tables": OTHER_NAMES},
    "uuid": {
        "primary_key_type": "uuid",
        "owner_key_type": "uuid",
        "subject_key_type": "string",
        "key_type": "ulid",
    },
    "ulid": {
        "primary_key_type": "ulid",
        "owner_key_type": "ulid",
        "subject_key_type": "uuid",
        "key_type": "string",
    },
    "uuid, other names": {
        "tables": OTHER_NAMES,
        "primary_key_type": "uuid",
        "owner_key_type": "string",
        "subject_key_type": "ulid",
        "key_type": "uuid",
    },
}


@dataclass
class Place:
    """A database of a certain choice, its runtime and an Almanac on it."""

    runtime: Runtime
    almanac: Almanac

    async def call(self, function: Any, *arguments: Any, **more: Any) -> Any:
        return await asyncio.to_thread(partial(function, *arguments, **more))

    async def matched(self) -> tuple[int, int]:
        """Deliveries and starts of what was emitted."""

        def match() -> tuple[int, int]:
            with self.almanac.transaction() as connection:
                report = match_events(connection, self.almanac.settings)
            return report.deliveries, report.starts

        return await asyncio.to_thread(match)


@pytest.fixture(scope="module", params=CHOICES.values(), ids=list(CHOICES))
def chosen(stack: Stack, request: pytest.FixtureRequest) -> Iterator[tuple[str, Settings]]:
    """A database of each choice, for all tests of this module."""
    settings = Settings(**request.param)
    with fresh_database(stack) as url:
        upgrade(url, settings)
        yield url, settings


@pytest_asyncio.fixture
async def place(chosen: tuple[str, Settings]) -> AsyncIterator[Place]:
    async with open_runtime(*chosen) as runtime:
        with Almanac(runtime.settings, registry=runtime.registry) as almanac:
            yield Place(runtime, almanac)


def permit() -> dict[str, Any]:
    """An action that fails once, a loop, and a wait that matches on the subject."""
    document = graph(
        action(
            "check",
            "check",
            input={"subject": "${ subject.id }", "n": "${ trigger.n }"},
            retry={"max_attempts": 2, "initial": "PT0S"},
        ),
        {
            "id": "ask",
            "type": "wait",
            "config": {
                "event": "answered",
                "match": {"permit": "${ subject.id }"},
                "condition": "event.n > trigger.n",
                "timeout": "PT1H",
            },
        },
        {"id": "note", "type": "set", "config": {"values": {"last": "${ steps.ask.output.n }"}}},
        {
            "id": "end",
            "type": "end",
            "config": {"output": ["${ state.last }", "${ steps.check.output }"]},
        },
        edges=[
            ("trigger", "check"),
            ("check", "ask"),
            ("ask", "note"),
            {"from": "note", "to": "ask", "when": "state.last < 9"},
            ("note", "end"),
        ],
        key="permit",
    )
    document["subject"] = "permit"
    document["settings"] = {"actor_mode": "starter"}
    return document


async def test_a_run_from_publish_to_the_last_row(place: Place) -> None:
    runtime, almanac, settings = place.runtime, place.almanac, place.almanac.settings
    seen: list[Any] = []

    @runtime.registry.action("check")
    def check(ctx: Any, subject: Any, n: int) -> str:
        seen.append((ctx.actor.reference.id, ctx.subject.id, subject))
        if ctx.step.attempt == 1:
            raise StepError("not_yet", "not yet")
        return str(ctx.step.id)

    owner = ("org", GIVEN[settings.owner_key_type])
    subject = ("Permit", GIVEN[settings.subject_key_type])
    starter = ("user", GIVEN[settings.key_type])
    published = await place.call(almanac.publish, permit(), owner=owner)
    assert published.created
    start = partial(place.call, almanac.start, "permit", {"n": 1}, owner=owner, starter=starter)
    started = await start(subject=Ref(*subject, key="permit"), idempotency_key="once")
    again = await start(subject=Ref(*subject, key="permit"), idempotency_key="once")
    assert (again.ulid, again.created) == (started.ulid, False)

    warm = runtime.process()
    result = await runtime.drive(warm, started.ulid, until="waiting")
    assert (result.status, result.node) == ("waiting", "ask")
    plain = GIVEN[settings.subject_key_type]
    shown = plain if isinstance(plain, int) else str(plain)
    (wait,) = await runtime.rows("waits", started.ulid)
    assert wait["match"] == {"permit": shown}
    by = GIVEN[settings.key_type]
    assert seen == [(by if isinstance(by, int) else str(by), shown, shown)] * 2

    for n, process in ((0, warm), (5, warm), (9, runtime.process())):
        await place.call(almanac.emit, "answered", {"permit": shown, "n": n}, owner=owner)
        assert await place.matched() == (1, 0)
        result = await runtime.finish(process, started.ulid)
    assert result.status == "completed"

    steps = await runtime.rows("step_runs", started.ulid)
    assert [(s["node_id"], s["visit"], s["attempt"], s["status"]) for s in steps] == [
        ("trigger", 1, 1, "succeeded"),
        ("check", 1, 1, "failed"),
        ("check", 1, 2, "succeeded"),
        ("ask", 1, 1, "succeeded"),
        ("note", 1, 1, "succeeded"),
        ("ask", 2, 1, "succeeded"),
        ("note", 2, 1, "succeeded"),
        ("end", 1, 1, "succeeded"),
    ]
    assert steps[-1]["output"] == [9, str(steps[2]["id"])]
    assert [w["status"] for w in await runtime.rows("waits", started.ulid)] == ["fired", "fired"]
    assert (await runtime.instance(started.ulid))["lock_version"] == len(
        await runtime.rows("journal", started.ulid)
    )
    view = await place.call(almanac.show, started.ulid)
    assert [step.id for step in view.steps] == [
        s["id"] if settings.primary_key_type == "bigint" else str(s["id"]) for s in steps
    ]
    page = await place.call(almanac.list, owner=owner, subject=subject)
    assert [item.ulid for item in page.items] == [started.ulid]


async def test_an_event_that_starts_an_instance_comes_before_all_that_it_waits_for(
    place: Place,
) -> None:
    document = graph(
        {"id": "ask", "type": "wait", "config": {"event": "filed"}},
        {"id": "end", "type": "end", "config": {"output": "${ [trigger.n, steps.ask.output.n] }"}},
        edges=[("trigger", "ask"), ("ask", "end")],
        key="filing",
    )
    document["nodes"][0]["config"] = {
        "type": "event",
        "event": "filed",
        "condition": {"field": "trigger.n", "op": "eq", "value": 2},
    }
    await place.call(place.almanac.publish, document)
    for n in (1, 2):
        await place.call(place.almanac.emit, "filed", {"n": n})
    assert await place.matched() == (0, 1)
    page = await place.call(place.almanac.list, key="filing")
    (ulid,) = [item.ulid for item in page.items]
    process = place.runtime.process()
    assert (await place.runtime.finish(process, ulid)).status == "waiting"
    await place.call(place.almanac.emit, "filed", {"n": 3})
    assert await place.matched() == (1, 0)
    assert (await place.runtime.finish(process, ulid)).status == "completed"
    assert (await place.runtime.step(ulid, "end"))["output"] == [2, 3]
    instance = await place.runtime.instance(ulid)
    assert (instance["trigger_type"], instance["trigger_key"]) == ("event", "filed")


async def test_a_long_journal_is_loaded_again_from_its_snapshot(place: Place) -> None:
    document = graph(
        {"id": "begin", "type": "set", "config": {"values": {"n": 0}}},
        {"id": "add", "type": "set", "config": {"values": {"n": "${ state.n + 1 }"}}},
        {"id": "ask", "type": "wait", "config": {"event": "go"}},
        {"id": "end", "type": "end", "config": {"output": "${ state.n }"}},
        edges=[
            ("trigger", "begin"),
            ("begin", "add"),
            {"from": "add", "to": "add", "when": "state.n < 1100"},
            ("add", "ask"),
            ("ask", "end"),
        ],
        key="long",
    )
    await place.call(place.almanac.publish, document)
    started = await place.call(place.almanac.start, "long")
    runtime = place.runtime
    await runtime.finish(runtime.process(), started.ulid)
    assert "snapshot" in await runtime.journal(started.ulid)
    await place.call(place.almanac.emit, "go", {})
    assert await place.matched() == (1, 0)
    assert (await runtime.finish(runtime.process(), started.ulid)).status == "completed"
    assert (await runtime.step(started.ulid, "end"))["output"] == 1100


async def test_a_dead_worker_is_taken_over(place: Place) -> None:
    runtime = place.runtime
    runtime.registry.action("count")(lambda ctx: ctx.step.attempt)
    document = graph(action("one", "count"), edges=[("trigger", "one")], key="dying")
    await place.call(place.almanac.publish, document)
    started = await place.call(place.almanac.start, "dying")
    dead = runtime.process()
    dead.runner.stop()
    with pytest.raises(RuntimeError, match="not started"):
        await runtime.finish(dead, started.ulid)
    await runtime.finish(runtime.process(), started.ulid)
    assert (await runtime.step(started.ulid, "one"))["output"] == 2
    assert str(ULID.from_str(started.ulid)) == started.ulid
