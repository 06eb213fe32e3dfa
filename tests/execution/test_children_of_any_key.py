"""Children, commands to them and news of their ends, whatever the keys and names of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from adapter.client.almanac import Almanac
from adapter.records.migrating import upgrade
from adapter.records.relaying import Relaying
from adapter.settings import Settings
from tests.execution.families import Family, ending, starting
from tests.execution.runtime import open_runtime
from tests.execution.test_key_types import CHOICES, GIVEN
from tests.records.databases import fresh_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from temporal_workflows.dev.stack import Stack


@pytest.fixture(scope="module", params=CHOICES.values(), ids=list(CHOICES))
def chosen(stack: Stack, request: pytest.FixtureRequest) -> Iterator[tuple[str, Settings]]:
    settings = Settings(**request.param)
    with fresh_database(stack) as url:
        upgrade(url, settings)
        yield url, settings


@pytest_asyncio.fixture
async def family(chosen: tuple[str, Settings]) -> AsyncIterator[Family]:
    url, settings = chosen
    async with open_runtime(url, settings) as runtime:
        with Almanac(runtime.settings, registry=runtime.registry) as almanac:
            yield Family(runtime, almanac, owner=("org", GIVEN[settings.owner_key_type]))


async def test_children_are_started_heard_of_and_let_go(family: Family) -> None:
    settings = family.runtime.settings
    hold = {"id": "hold", "type": "wait", "config": {"signal": "go"}}
    await family.publish(ending("${ trigger.n }"), name="quick")
    await family.publish(hold, name="slow")
    await family.publish(
        starting("quick", "many", items=[1, 2, 3, 4, 5], input={"n": "${ item }"}),
        starting("slow", "late", wait=False),
        starting("slow", "last"),
        name="parent",
    )
    deps = family.process()
    starter = ("user", GIVEN[settings.key_type])
    ulid = await family.start("parent", starter=starter)
    await family.settle(deps, ulid)
    assert [r["output"] for r in (await family.output(ulid, "many"))["results"]] == [1, 2, 3, 4, 5]
    await family.cancel(ulid)
    await family.settle(family.process(), ulid)
    children = await family.children(ulid)
    assert [c["status"] for c in children] == [*["completed"] * 5, "waiting", "cancelled"]
    parent = await family.runtime.instance(ulid)
    for child in children:
        assert child["root_instance_id"] == child["parent_instance_id"] == parent["id"]
        assert (child["owner_type"], child["owner_id"]) == ("org", parent["owner_id"])
        assert (child["starter_type"], child["starter_id"]) == ("user", parent["starter_id"])
    view = await family.call(family.almanac.show, ulid)
    assert [child.ulid for child in view.children] == [child["ulid"] for child in children]
    async with family.runtime.pool.acquire() as connection:
        assert await Relaying(settings).overdue(connection, 100) == []
