"""Random families: whatever happens in whatever order, rows, journals and inboxes agree."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.client.almanac import Almanac
from adapter.interpreter.apply import fold
from tests.execution.families import Family, ending, one_turn, starting
from tests.execution.runtime import graph, open_runtime

if TYPE_CHECKING:
    from adapter.execution.deps import TurnDeps

JOINS: list[dict[str, Any]] = [
    {},
    {"on_failure": "finish"},
    {"mode": "any"},
    {"mode": "quorum", "quorum": 2},
]
SHAPES = st.sampled_from([f"{body}{n}" for body in ("flat", "race") for n in range(len(JOINS))])
MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            ["turn"] * 6 + ["go", "go", "fail", "cancel", "pause", "resume", "retry", "forget"]
        ),
        st.integers(0, 10),
    ),
    max_size=25,
)
HOLD: dict[str, Any] = {"id": "hold", "type": "wait", "config": {"signals": ["go", "fail"]}}


def test_rows_journals_and_inboxes_of_a_family_agree_after_every_turn(database_url: str) -> None:
    with asyncio.Runner() as runner:
        context = open_runtime(database_url)
        runtime = runner.run(context.__aenter__())
        with Almanac(runtime.settings, registry=runtime.registry) as almanac:
            family = Family(runtime, almanac)
            deps = family.process()
            runner.run(_publish(family))

            @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
            @given(SHAPES, MOVES)
            def check(shape: str, moves: list[tuple[str, int]]) -> None:
                runner.run(_live(family, deps, shape, moves))

            check()
        runner.run(context.__aexit__(None, None, None))


async def _publish(family: Family) -> None:
    await family.publish_graph(
        graph(
            {"id": "hold", "type": "wait", "config": {"signals": ["go", "fail"], "mode": "any"}},
            ending("fine"),
            ending(None, node="bad", status="failed"),
            edges=[
                ("trigger", "hold"),
                {"from": "hold", "to": "bad", "when": "steps.hold.output.signal == 'fail'"},
                ("hold", "end"),
            ],
            key="leaf",
        )
    )
    await family.publish(starting("leaf"), ending("${ steps.call.output }"), name="middle")
    for n, join in enumerate(JOINS):
        start = starting("middle", items=[1, 2, 3], **join)
        await family.publish(start, ending("${ steps.call.output }"), name=f"flat{n}")
        race = {
            "id": "race",
            "type": "parallel",
            "config": {"branches": {"a": "call", "b": "other"}, "join": "any"},
        }
        await family.publish_graph(
            graph(
                race,
                start,
                starting("leaf", "other"),
                ending(1),
                edges=[("trigger", "race"), ("race", "end")],
                key=f"race{n}",
            )
        )


async def _live(family: Family, deps: TurnDeps, shape: str, moves: list[tuple[str, int]]) -> None:
    root = await family.start(shape)
    await _turn(family, deps, root, root)
    for move, pick in moves:
        told = await family.told(root)
        everyone = await _everyone(family, root)
        one = everyone[pick % len(everyone)]
        if move == "turn":
            if told:
                await _turn(family, deps, root, told[pick % len(told)])
        elif move == "forget":
            deps.cache.take(one)
        elif move in ("go", "fail"):
            await family.runtime.tell(one, "signal", {"name": move, "payload": None})
        else:
            await family.runtime.tell(one, move, {})
    for one in await _everyone(family, root):
        await family.runtime.tell(one, "resume", {})
    await family.settle(deps, root)
    await _agree(family, deps, root)
    if await family.status(root) in ("completed", "failed", "cancelled"):
        left = [one for one in await _everyone(family, root) if await _lives(family, one)]
        assert not [one for one in left if not await _taken_up_again(family, one)]


async def _lives(family: Family, ulid: str) -> bool:
    return await family.status(ulid) in ("pending", "running", "waiting", "paused")


async def _taken_up_again(family: Family, ulid: str) -> bool:
    """Whether it, or an instance above it, was retried: its parent minds it no more."""
    while True:
        if "retried" in await family.runtime.journal(ulid):
            return True
        parent = (await family.call(family.almanac.show, ulid)).parent
        if parent is None:
            return False
        ulid = parent


async def _turn(family: Family, deps: TurnDeps, root: str, ulid: str) -> None:
    await one_turn(deps, ulid)
    await _agree(family, deps, root)


async def _everyone(family: Family, root: str) -> list[str]:
    n = family.runtime.settings.tables
    rows = await family.runtime.pool.fetch(
        f"SELECT i.ulid FROM {n.instances} i JOIN {n.instances} r ON r.id = i.root_instance_id"
        " WHERE r.ulid = $1 ORDER BY i.depth, i.id",
        root,
    )
    return [row["ulid"] for row in rows]


async def _agree(family: Family, deps: TurnDeps, root: str) -> None:
    for ulid in await _everyone(family, root):
        async with family.runtime.pool.acquire() as connection:
            loaded = await deps.loader.load(connection, ulid)
        state = fold(loaded.entries)
        known = deps.cache.take(ulid)
        if known.state.seq:
            assert known.state == state
            deps.cache.put(ulid, known)
        assert (loaded.status, loaded.seq) == (state.status, state.seq)
        waits = await family.runtime.rows("waits", ulid)
        assert {w["id"] for w in waits if w["status"] == "pending"} == set(state.waits)
        assert all((w["claimed_at"] is None) == (w["status"] == "pending") for w in waits)
        started = [u for w in waits if w["kind"] == "instances" for u in w["match"]["instances"]]
        assert sorted(started) == sorted(c["ulid"] for c in await family.children(ulid))
        assert state.started == len(started)
        await _agree_with_children(family, ulid, waits)


async def _agree_with_children(family: Family, ulid: str, waits: list[dict[str, Any]]) -> None:
    """Who has ended has told the wait that was open; who is not needed has been told."""
    told = {
        row["payload"]["ulid"]
        for row in await family.runtime.rows("inbox", ulid)
        if row["kind"] == "child"
    }
    by_step = {wait["step_run_id"]: wait for wait in waits if wait["kind"] == "instances"}
    for child in await family.children(ulid):
        wait = by_step[child["parent_step_run_id"]]
        commands = [r["kind"] for r in await family.runtime.rows("inbox", child["ulid"])]
        if wait["status"] == "pending":
            assert (child["ulid"] in told) or child["ended_at"] is None
        elif child["ulid"] not in told:
            assert "cancel" in commands
