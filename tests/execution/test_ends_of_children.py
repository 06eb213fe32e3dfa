"""Ends of children, none of which is lost to a parent, whatever it does meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ulid import ULID

from adapter.execution.cache import Folded
from adapter.execution.instance import Instance
from adapter.interpreter.events import Tick
from adapter.records.relaying import Relaying
from tests.execution.families import GO, HOLD, Family, by_trigger, ending, one_turn, starting

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


async def test_a_child_may_end_while_its_parent_is_paused(family: Family) -> None:
    await family.publish(HOLD, ending(1), name="child")
    await family.publish(starting("child"), ending("${ steps.call.output.output }"), name="parent")
    deps = family.process()
    ulid = await family.start("parent")
    await family.settle(deps, ulid)
    await family.runtime.tell(ulid, "pause", {})
    await family.settle(deps, ulid)
    (child,) = await family.children(ulid)
    await family.runtime.tell(child["ulid"], "signal", GO)
    await family.settle(deps, ulid)
    assert (await family.status(ulid), await family.statuses(ulid)) == ("paused", ["completed"])
    await family.runtime.tell(ulid, "resume", {})
    await family.settle(family.process(), ulid)
    assert await family.output(ulid, "end") == 1


async def test_a_parent_that_nobody_knows_any_more_reads_its_children_from_their_rows(
    family: Family,
) -> None:
    await family.publish(ending("${ trigger.n }"), name="child")
    start = starting("child", items=[1, 2, 3], input={"n": "${ item }"})
    await family.publish(start, name="parent")
    ulid = await family.start("parent")
    await family.turns(family.process(), ulid)
    for child in await family.children(ulid):
        await family.turns(family.process(), child["ulid"])
    # All that the ends wrote is lost; a poke alone makes the parent look.
    n = family.runtime.settings.tables
    parent = await family.runtime.instance(ulid)
    await family.runtime.pool.execute(f"DELETE FROM {n.inbox} WHERE instance_id = $1", parent["id"])
    await one_turn(family.process(), ulid)
    assert [one["output"] for one in (await family.output(ulid))["results"]] == [1, 2, 3]


async def test_children_that_end_before_their_parent_has_looked_are_all_heard_of(
    family: Family,
) -> None:
    await family.publish(ending("${ trigger.n }"), name="child")
    start = starting("child", items="${ trigger.items }", input={"n": "${ item }"})
    await family.publish(start, name="parent")
    deps = family.process()
    ulid = await family.start("parent", {"items": list(range(300))})
    await family.settle(deps, ulid)
    output = await family.output(ulid)
    assert [one["output"] for one in output["results"]] == list(range(300))
    assert (output["succeeded"], output["failed"]) == (300, 0)
    children = await family.children(ulid)
    assert len({child["idempotency_digest"] for child in children}) == 300
    assert [child["trigger_payload"]["n"] for child in children] == list(range(300))


async def test_an_end_that_passes_a_new_wait_by_is_found_by_the_sweep(family: Family) -> None:
    """The end sees no wait, the look after the wait's commit sees no end."""
    watching = {"id": "all", "type": "wait_for", "config": {"instances": "${ trigger.it }"}}
    await family.publish(HOLD, ending(5), name="slow")
    await family.publish(watching, ending("${ steps.all.output }"), name="watcher")
    runtime, n = family.runtime, family.runtime.settings.tables
    deps = family.process()
    slow = await family.start("slow")
    await family.settle(deps, slow)
    watcher = await family.start("watcher", {"it": slow})
    await family.settle(deps, watcher)
    await runtime.tell(slow, "signal", GO)
    await family.turns(deps, slow)
    await runtime.pool.execute(
        f"DELETE FROM {n.inbox} b USING {n.instances} i"
        " WHERE i.id = b.instance_id AND i.ulid = $1 AND kind = 'child'",
        watcher,
    )
    relaying = Relaying(runtime.settings)

    async def overdue() -> bool:
        async with runtime.pool.acquire() as connection:
            return watcher in {claim.ulid for claim in await relaying.overdue(connection, 10_000)}

    assert not await overdue()
    await _grow_old(runtime, slow, watcher)
    assert await overdue()
    await one_turn(deps, watcher)
    assert (await family.output(watcher, "end"))["instances"][0]["output"] == 5
    assert not await overdue()


async def test_the_sweep_leaves_those_alone_who_have_noted_every_end(family: Family) -> None:
    await family.publish_graph(by_trigger())
    await family.publish(starting("child", items=["c", "?"], input={"do": "${item}"}), name="up")
    ulid = await family.start("up")
    await family.settle(family.process(), ulid)
    ulids = [child["ulid"] for child in await family.children(ulid)]
    await _grow_old(family.runtime, ulid, *ulids)
    async with family.runtime.pool.acquire() as connection:
        claims = await Relaying(family.runtime.settings).overdue(connection, 10_000)
    assert ulid not in {claim.ulid for claim in claims}


async def _grow_old(runtime: Runtime, *ulids: str) -> None:
    n = runtime.settings.tables
    await runtime.pool.execute(
        f"UPDATE {n.instances} SET ended_at = ended_at - interval '1 hour'"
        " WHERE ulid = ANY ($1::bpchar[])",
        list(ulids),
    )
    await runtime.pool.execute(
        f"UPDATE {n.waits} w SET created_at = w.created_at - interval '1 hour'"
        f" FROM {n.instances} i WHERE i.id = w.instance_id AND i.ulid = ANY ($1::bpchar[])",
        list(ulids),
    )


async def test_a16_two_children_that_end_in_transactions_at_once_are_both_heard_of(
    family: Family,
) -> None:
    """Each ends unseen by the other, so neither could have counted itself the last one."""
    await family.publish(ending("${ trigger.n }"), name="child")
    start = starting("child", items=[1, 2], input={"n": "${ item }"})
    await family.publish(start, name="parent")
    runtime, deps = family.runtime, family.process()
    ulid = await family.start("parent")
    await family.turns(deps, ulid)
    async with runtime.pool.acquire() as first, runtime.pool.acquire() as second:
        one, two = first.transaction(), second.transaction()
        await one.start()
        await two.start()
        for connection, child in zip((first, second), await family.children(ulid), strict=True):
            instance = Instance(deps, child["ulid"], str(ULID()), Folded())
            inbox = await instance.load(connection)
            await instance.advance(connection, [*inbox, Tick()], begin=True)
            assert instance.state.ended
        assert await family.statuses(ulid) == ["pending", "pending"]
        await one.commit()
        await family.turns(deps, ulid)
        assert await family.status(ulid) == "waiting"
        await two.commit()
    await family.turns(deps, ulid)
    assert [one["output"] for one in (await family.output(ulid))["results"]] == [1, 2]
