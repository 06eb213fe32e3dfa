from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from ulid import ULID

from adapter.errors import Misconfigured
from adapter.records.keys import BigintKeys, KeysSpent, keys_for, new_ulid
from adapter.records.migrating import upgrade
from adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TABLE = "workflow_step_runs"


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def test_bigint_ids_grow_and_are_never_given_twice(connection: Any) -> None:
    keys = keys_for(Settings(), "step_runs")
    first, second = await keys.reserve(connection, 10), await keys.reserve(connection, 10)
    drawn = [draw() for draw in (first, second) * 5]
    assert len(set(drawn)) == 10
    assert drawn[::2] == sorted(drawn[::2])
    assert drawn[1::2] == sorted(drawn[1::2])


async def test_an_instance_gets_greater_ids_from_a_process_whose_block_is_older(
    connection: Any,
) -> None:
    here, there = BigintKeys(TABLE, block=10), BigintKeys(TABLE, block=10)
    low = (await here.reserve(connection, 1))()
    last = (await there.reserve(connection, 1))()
    assert int(low) < int(last)
    draw = await here.reserve(connection, 3, after=last)
    ids = [draw(), draw(), draw()]
    assert [last, *ids] == sorted({last, *ids})


async def test_ids_too_low_for_one_instance_still_serve_another(connection: Any) -> None:
    here, there = BigintKeys(TABLE, block=10), BigintKeys(TABLE, block=10)
    low = (await here.reserve(connection, 1))()
    last = (await there.reserve(connection, 1))()
    (await here.reserve(connection, 1, after=last))()
    assert (await here.reserve(connection, 1))() == int(low) + 1


async def test_a_block_is_fetched_once_and_then_no_statement_is_needed(connection: Any) -> None:
    keys = BigintKeys(TABLE, block=50)
    await keys.reserve(connection, 50)
    await connection.close()
    draw = await keys.reserve(connection, 50)
    assert len({draw() for _ in range(50)}) == 50


async def test_more_than_a_block_can_be_reserved(connection: Any) -> None:
    draw = await BigintKeys(TABLE, block=5).reserve(connection, 23)
    assert len({draw() for _ in range(23)}) == 23


async def test_drawing_more_than_there_is_says_so(connection: Any) -> None:
    draw = await BigintKeys(TABLE, block=2).reserve(connection, 2)
    draw()
    draw()
    with pytest.raises(KeysSpent, match="reserve more") as spent:
        draw()
    assert spent.value.retryable


async def test_ids_of_the_database_and_reserved_ones_do_not_clash(
    connection: Any, database_url: str
) -> None:
    draw = await keys_for(Settings(), "events").reserve(connection, 3)
    reserved = {draw() for _ in range(3)}
    statement = (
        "INSERT INTO workflow_events (key, owner_scope, payload, digests, epoch) "
        "VALUES ('k', '*', '{}', '{}', 1) RETURNING id"
    )
    assert await connection.fetchval(statement) not in reserved


async def test_a_sequence_behind_the_ids_in_use_is_named_with_its_remedy(connection: Any) -> None:
    keys = BigintKeys(TABLE, block=10)
    with pytest.raises(Misconfigured, match="SELECT setval") as refused:
        await keys.reserve(connection, 1, after=1_000_000)
    remedy = "SELECT setval" + str(refused.value).split("SELECT setval")[1]
    await connection.execute(remedy.replace("(SELECT max(id) FROM workflow_step_runs)", "1000000"))
    assert (await keys.reserve(connection, 1, after=1_000_000))() == 1_000_001


@pytest.mark.parametrize("kind", ["uuid", "ulid"])
async def test_ids_made_here_grow_within_the_process(kind: str) -> None:
    keys = keys_for(Settings.model_validate({"primary_key_type": kind}), "step_runs")
    draws = [await keys.reserve(None, after=None) for _ in range(3)]  # type: ignore[arg-type]
    drawn = [draw() for _ in range(2_000) for draw in draws]
    assert all(a < b for a, b in pairwise(map(str, drawn)))


@pytest.mark.parametrize(
    ("kind", "future"),
    [("uuid", "7fffffff-ffff-7fff-bfff-000000000000"), ("ulid", "7ZZZZZZZZZ0000000000000000")],
)
async def test_ids_follow_one_from_a_clock_that_runs_ahead(kind: str, future: str) -> None:
    keys = keys_for(Settings.model_validate({"primary_key_type": kind}), "step_runs")
    draw = await keys.reserve(None, after=future)  # type: ignore[arg-type]
    ids = [future, *(str(draw()) for _ in range(100))]
    assert all(a < b for a, b in pairwise(ids))
    others = await keys.reserve(None)  # type: ignore[arg-type]
    assert str(others()) < future


async def test_uuids_are_of_version_7_and_carry_the_time() -> None:
    keys = keys_for(Settings(primary_key_type="uuid"), "step_runs")
    before = time.time_ns() // 1_000_000
    made = UUID(str((await keys.reserve(None))()))  # type: ignore[arg-type]
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert before - 1 <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ulids_carry_the_time_and_grow() -> None:
    before = time.time_ns() // 1_000_000
    made = [new_ulid() for _ in range(1_000)]
    assert made == sorted(set(made))
    assert {len(one) for one in made} == {26}
    assert before - 1 <= ULID.from_str(made[0]).milliseconds <= time.time_ns() // 1_000_000 + 1


@pytest.mark.parametrize("kind", ["uuid", "ulid"])
def test_ids_that_the_database_draws_are_well_formed_and_sort_by_time(
    empty_database_url: str, kind: str
) -> None:
    upgrade(empty_database_url, Settings.model_validate({"primary_key_type": kind}))
    statement = (
        "INSERT INTO workflow_events (key, owner_scope, payload, digests, epoch) "
        "VALUES ('k', '*', '{}', '{}', 1) RETURNING id::text, created_at"
    )
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        rows = [connection.execute(statement).fetchone() for _ in range(200)]
    drawn = [row[0] for row in rows if row]
    assert all(a < b for a, b in pairwise(drawn))
    for row in rows:
        assert row is not None
        made, at = row[0], row[1].timestamp() * 1000
        if kind == "uuid":
            assert (UUID(made).version, UUID(made).variant) == (7, "specified in RFC 4122")
            milliseconds = UUID(made).int >> 80
        else:
            milliseconds = ULID.from_str(made).milliseconds
        assert abs(milliseconds - at) < 100
