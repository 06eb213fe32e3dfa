from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from adapter.client.almanac import Almanac
from adapter.errors import Conflict, InvalidInput, NotFound
from adapter.execution.registry import Registry
from adapter.records.connecting import make_database
from adapter.services.morphs import Ref
from adapter.settings import Idempotency, Limits, Settings
from tests.services.graphs import document, waiting
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.services.conftest import Rows


def test_a_start_writes_the_instance_and_its_first_inbox_row(almanac: Almanac, rows: Rows) -> None:
    published = almanac.publish(document(subject="permit"))

    started = almanac.start(
        "permits",
        {"case": "A-17", "amount": 200.0},
        owner=("team", 1),
        subject=Ref("permit", 17),
        starter=("user", 3),
    )

    assert started.created
    (instance,) = rows("SELECT * FROM workflow_instances")
    columns = (
        "ulid",
        "id",
        "root_instance_id",
        "definition_id",
        "version_id",
        "status",
        "lock_version",
        "trigger_type",
        "trigger_key",
        "trigger_payload",
        "actor_mode",
        "idempotency_digest",
        "started_at",
    )
    assert tuple(instance[column] for column in columns) == (
        started.ulid,
        started.id,
        started.id,
        published.definition_id,
        published.version_id,
        "pending",
        0,
        "manual",
        None,
        {"case": "A-17", "amount": 200},
        "starter",
        None,
        None,
    )
    about = ("owner_type", "owner_id", "subject_key", "subject_type", "subject_id", "starter_type")
    assert tuple(instance[column] for column in (*about, "starter_id")) == (
        "team",
        1,
        "permit",
        "permit",
        17,
        "user",
        3,
    )
    (inbox,) = rows("SELECT * FROM workflow_inbox")
    assert (inbox["instance_id"], inbox["kind"], inbox["event_id"]) == (started.id, "start", None)
    assert inbox["payload"]["after"] is None
    assert inbox["payload"]["snapshot"].count(":") == 2
    assert (inbox["applied_at"], inbox["poked_at"]) == (None, None)


def test_an_unknown_definition_is_not_found_and_leaves_nothing(
    almanac: Almanac, everything: Callable[[], Any]
) -> None:
    almanac.publish(document())
    before = everything()

    with pytest.raises(NotFound) as refused:
        almanac.start("permitz", {"case": 1}, idempotency_key="k")
    with pytest.raises(NotFound):
        almanac.start_many("permitz", [{}])

    assert refused.value.code == "definition_not_found"
    assert everything() == before


@pytest.mark.parametrize("status", ["paused", "archived", "draft"])
def test_only_an_active_definition_can_be_started(
    almanac: Almanac, rows: Rows, status: str
) -> None:
    almanac.publish(document())
    rows("UPDATE workflow_definitions SET status = %s", status)

    for start in (
        lambda: almanac.start("permits"),
        lambda: almanac.start("permits", idempotency_key="k"),
        lambda: almanac.start_many("permits", [{}]),
    ):
        with pytest.raises(Conflict) as refused:
            start()
        assert refused.value.code == "definition_not_active"
    assert rows("SELECT 1 FROM workflow_instances") == []
    assert rows("SELECT 1 FROM workflow_idempotency_keys") == []


def test_the_owners_own_definition_comes_before_the_application_wide_one(almanac: Almanac) -> None:
    almanac.publish(document(name="Everybody's"))
    almanac.publish(document(name="Team 1's"), owner=("team", 1))

    names = [
        almanac.show(almanac.start("permits", owner=owner).ulid).name
        for owner in (None, ("team", 1), ("team", 2))
    ]

    assert names == ["Everybody's", "Team 1's", "Everybody's"]


def test_a_definition_of_another_owner_is_not_found(almanac: Almanac) -> None:
    almanac.publish(document(), owner=("team", 1))

    with pytest.raises(NotFound):
        almanac.start("permits", owner=("team", 2))
    with pytest.raises(NotFound):
        almanac.start("permits")


DEEP: Any = []
for _ in range(70):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (math.nan, "invalid_value"),
        ({"a": [1, math.inf]}, "invalid_value"),
        ({"a": 2**53}, "invalid_value"),
        ({"a": "nul \0"}, "invalid_value"),
        ({"a\0": 1}, "invalid_value"),
        ({"a": "\ud800"}, "invalid_value"),
        ({"a": {1, 2}}, "invalid_value"),
        ({1: "a"}, "invalid_value"),
        (DEEP, "invalid_value"),
        ({"a": "x" * 300_000}, "payload_too_large"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_payload_that_cannot_be_kept_is_refused_and_leaves_nothing(
    almanac: Almanac, everything: Callable[[], Any], payload: Any, code: str
) -> None:
    almanac.publish(document())
    before = everything()

    with pytest.raises(InvalidInput) as refused:
        almanac.start("permits", payload)
    with pytest.raises(InvalidInput, match="payload 1"):
        almanac.start_many("permits", [{}, payload])

    assert refused.value.code == code
    assert everything() == before


@pytest.mark.parametrize("payload", [None, 7, "text", [1, {"a": None}], {"a": 1.5, "ü": "😀"}])
def test_a_payload_comes_back_as_it_was_sent(almanac: Almanac, payload: Any) -> None:
    almanac.publish(document())

    assert almanac.show(almanac.start("permits", payload).ulid).trigger_payload == payload


@pytest.mark.parametrize(
    "owner",
    [
        ("team", "1"),
        ("team", True),
        ("team", 2**63),
        ("team", None),
        ("te:am", 1),
        ("*", 1),
        ("", 1),
        ("t\n", 1),
        ("t" * 200, 1),
        "team:1",
        ("team",),
        7,
    ],
)
def test_what_is_no_reference_is_refused(almanac: Almanac, owner: Any) -> None:
    almanac.publish(document())

    for role in ("owner", "subject", "starter"):
        with pytest.raises(InvalidInput) as refused:
            almanac.start("permits", **{role: owner})
        assert refused.value.code == "invalid_reference"


def test_unknown_modes_and_keys_are_refused(almanac: Almanac) -> None:
    almanac.publish(document())

    for given, code in (
        ({"actor_mode": "root"}, "invalid_actor_mode"),
        ({"idempotency_key": ""}, "invalid_idempotency_key"),
        ({"idempotency_key": "a\0"}, "invalid_idempotency_key"),
        ({"idempotency_key": "a" * 1001}, "invalid_idempotency_key"),
    ):
        with pytest.raises(InvalidInput) as refused:
            almanac.start("permits", **given)  # type: ignore[arg-type]
        assert refused.value.code == code
    with pytest.raises(InvalidInput) as refused:
        almanac.start("per\0mits")
    assert refused.value.code == "invalid_key"


def test_the_actor_mode_of_a_start_wins_over_the_versions(almanac: Almanac) -> None:
    almanac.publish(document(settings={"actor_mode": "system"}))

    modes = [
        almanac.show(almanac.start("permits", actor_mode=mode).ulid).actor_mode
        for mode in (None, "owner")
    ]

    assert modes == ["system", "owner"]


def test_the_same_key_and_input_give_the_same_instance(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(document())
    first = almanac.start("permits", {"a": 1.0}, subject=("permit", 1), idempotency_key="k")

    again = almanac.start("permits", {"a": 1}, subject=("permit", 1), idempotency_key="k")

    assert (again.ulid, again.id, again.created) == (first.ulid, first.id, False)
    (key,) = rows("SELECT * FROM workflow_idempotency_keys")
    assert (key["scope"], key["instance_id"]) == ("start", first.id)
    assert key["expires_at"] - key["created_at"] > timedelta(days=29)
    assert rows("SELECT idempotency_digest FROM workflow_instances") == [
        {"idempotency_digest": key["key"]}
    ]
    assert len(rows("SELECT 1 FROM workflow_inbox")) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"payload": {"a": 2}},
        {"payload": None},
        {"subject": ("permit", 2)},
        {"subject": None},
        {"subject": ("order", 1)},
    ],
)
def test_the_same_key_with_other_input_is_a_conflict(
    almanac: Almanac, rows: Rows, other: dict[str, Any]
) -> None:
    almanac.publish(document())
    given: dict[str, Any] = {"payload": {"a": 1}, "subject": ("permit", 1)}
    first = almanac.start("permits", **given, idempotency_key="k")

    with pytest.raises(Conflict) as refused:
        almanac.start("permits", **{**given, **other}, idempotency_key="k")

    assert refused.value.code == "idempotency_conflict"
    assert refused.value.details["ulid"] == first.ulid
    assert len(rows("SELECT 1 FROM workflow_instances")) == 1


def test_a_key_counts_for_its_definition_and_owner_only(almanac: Almanac) -> None:
    almanac.publish(document())
    almanac.publish(document("orders"))

    started = [
        almanac.start(key, owner=owner, idempotency_key="k")
        for key, owner in (("permits", None), ("orders", None), ("permits", ("team", 1)))
    ]

    assert [one.created for one in started] == [True, True, True]


def test_a_key_is_free_again_when_it_has_expired(database_url: str) -> None:
    brief = Idempotency(ttl=timedelta(microseconds=1))
    settings = Settings(database_url=database_url, idempotency=brief)
    with Almanac(settings, registry=Registry()) as almanac:
        almanac.publish(document())
        first = almanac.start("permits", {"a": 1}, idempotency_key="k")

        second = almanac.start("permits", {"a": 2}, idempotency_key="k")

    assert second.created
    assert second.ulid != first.ulid


def test_a_start_can_say_how_long_its_key_is_kept(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(document())
    brief = timedelta(microseconds=1)
    first = almanac.start("permits", idempotency_key="brief", idempotency_ttl=brief)
    assert almanac.start("permits", idempotency_key="brief").ulid != first.ulid
    almanac.start("permits", idempotency_key="k", idempotency_ttl="P90D")
    # The time of the start that made the instance counts.
    again = almanac.start("permits", idempotency_key="k", idempotency_ttl=brief)
    assert not again.created
    kept = rows(
        "SELECT round(extract(epoch FROM expires_at - created_at) / 86400) AS days"
        " FROM workflow_idempotency_keys ORDER BY id"
    )
    assert [row["days"] for row in kept] == [30, 90]


@pytest.mark.parametrize(
    "given",
    [
        {"idempotency_ttl": timedelta(hours=1)},
        {"idempotency_key": "k", "idempotency_ttl": timedelta()},
        {"idempotency_key": "k", "idempotency_ttl": timedelta(days=36_501)},
        {"idempotency_key": "k", "idempotency_ttl": 60},
        {"idempotency_key": "k", "idempotency_ttl": "an hour"},
        {"idempotency_key": "k", "idempotency_ttl": "PT0S"},
    ],
)
def test_a_time_that_no_key_can_be_kept_for_is_refused(
    almanac: Almanac, given: dict[str, Any]
) -> None:
    almanac.publish(document())
    with pytest.raises(InvalidInput) as refused:
        almanac.start("permits", **given)
    assert refused.value.code == "invalid_idempotency_ttl"


def test_starts_with_one_key_at_the_same_time_make_one_instance(
    almanac: Almanac, rows: Rows
) -> None:
    almanac.publish(document())

    with ThreadPoolExecutor(8) as together:
        started = list(
            together.map(
                lambda _: almanac.start("permits", {"a": 1}, idempotency_key="k"), range(24)
            )
        )

    assert len({one.ulid for one in started}) == 1
    assert [one.created for one in started].count(True) == 1
    assert len(rows("SELECT 1 FROM workflow_instances")) == 1


def test_a_start_waits_for_the_transaction_that_uses_its_key(almanac: Almanac) -> None:
    almanac.publish(document())
    with ThreadPoolExecutor(1) as aside:
        with almanac.transaction() as connection:
            first = almanac.start("permits", idempotency_key="k", connection=connection)
            later = aside.submit(almanac.start, "permits", idempotency_key="k")
            assert not later.done()
        second = later.result(10)

    assert (second.ulid, second.created) == (first.ulid, False)


def test_a_key_whose_start_was_rolled_back_is_free(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(document())
    with almanac.transaction() as connection:
        almanac.start("permits", idempotency_key="k", connection=connection)
        connection.rollback()

    assert almanac.start("permits", idempotency_key="k").created
    assert len(rows("SELECT 1 FROM workflow_instances")) == 1


def test_many_starts_come_back_in_their_order(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(document())
    payloads = [{"n": n} for n in range(2_500)]

    started = almanac.start_many("permits", payloads, owner=("team", 1), starter=("user", 2))

    found = rows("SELECT ulid, id, root_instance_id, trigger_payload AS p FROM workflow_instances")
    by_ulid = {row["ulid"]: row for row in found}
    assert [by_ulid[one.ulid]["p"] for one in started] == payloads
    assert all(row["id"] == row["root_instance_id"] for row in found)
    assert {one.id for one in started} == {row["id"] for row in found}
    starts = rows("SELECT DISTINCT kind FROM workflow_inbox")
    assert starts == [{"kind": "start"}]
    assert len(rows("SELECT 1 FROM workflow_inbox")) == len(payloads)
    assert almanac.start_many("permits", []) == []


@pytest.mark.parametrize("payloads", ["text", b"text", {"n": 1}, None, 5])
def test_one_thing_is_not_many_payloads(almanac: Almanac, rows: Rows, payloads: Any) -> None:
    almanac.publish(document())

    with pytest.raises(InvalidInput) as refused:
        almanac.start_many("permits", payloads)

    assert refused.value.code == "invalid_payload"
    assert rows("SELECT 1 FROM workflow_instances") == []


def test_a_start_goes_with_the_callers_session(almanac: Almanac, database_url: str) -> None:
    almanac.publish(document())
    engine = make_database(Settings(database_url=database_url))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE cases (id bigint)"))
    with Session(engine) as session:
        session.execute(text("INSERT INTO cases VALUES (1)"))
        lost = almanac.start("permits", connection=session)
        session.rollback()
        session.execute(text("INSERT INTO cases VALUES (2)"))
        kept = almanac.start("permits", connection=session)
        session.commit()
        found = session.execute(text("SELECT id FROM cases")).scalars().all()
    engine.dispose()

    assert found == [2]
    assert [one.ulid for one in almanac.list().items] == [kept.ulid]
    with pytest.raises(NotFound):
        almanac.show(lost.ulid)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_async_callers_go_through_run_sync(
    almanac: Almanac, database_url: str, driver: str
) -> None:
    almanac.publish(waiting(match={"case": "${ trigger.case }"}))

    def work(connection: Connection) -> str:
        payload = {"case": "A", "amount": 1.5}
        started = almanac.start(
            "permits", payload, owner=("team", 1), idempotency_key="k", connection=connection
        )
        almanac.start_many("permits", [{"case": "B"}], connection=connection)
        almanac.emit("permits.moved", {"case": "A"}, connection=connection)
        assert almanac.show(started.ulid, connection=connection).trigger_payload == payload
        page = almanac.list(owner=("team", 1), connection=connection)
        assert [one.ulid for one in page.items] == [started.ulid]
        return started.ulid

    engine = create_async_engine(database_url.replace("postgresql:", f"postgresql+{driver}:"))
    async with engine.begin() as connection:
        ulid = await connection.run_sync(work)
    await engine.dispose()

    assert ulid in {one.ulid for one in almanac.list().items}
    assert almanac.publish(document()).number == 2


def test_an_event_emitted_after_the_start_in_its_own_transaction_is_not_lost(
    almanac: Almanac, rows: Rows
) -> None:
    almanac.publish(waiting(match={"case": "A"}))
    almanac.emit("permits.moved", {"case": "A", "n": "before"})
    with almanac.transaction() as connection:
        connection.execute(text("SELECT pg_current_xact_id()"))
        # A transaction that begins later and ends earlier moves the snapshot past our own.
        almanac.emit("permits.moved", {"case": "B"})
        started = almanac.start("permits", connection=connection)
        almanac.emit("permits.moved", {"case": "A", "n": "after"}, connection=connection)

    take_turns(almanac.settings, started.ulid)

    view = almanac.show(started.ulid)
    assert view.status == "completed"
    assert view.steps[1].output == {"case": "A", "n": "after"}


@pytest.mark.parametrize("kind", ["uuid", "ulid"])
def test_every_type_of_keys_works(empty_database_url: str, kind: Any) -> None:
    settings = Settings(
        database_url=empty_database_url,
        primary_key_type=kind,
        owner_key_type="uuid",
        subject_key_type="string",
        key_type="ulid",
    )
    team, user = uuid4(), "01JZ8X0V5M6T3C2R9Q4K7W1N8B"
    with Almanac(settings, registry=Registry()) as almanac:
        almanac.migrate()
        almanac.publish(waiting(match={"case": "A"}), owner=("team", team), publisher=("u", user))
        started = almanac.start(
            "permits", {}, owner=("team", team), subject=("permit", "P/1"), starter=("u", user)
        )
        again = almanac.start("permits", owner=("team", str(team).upper()), idempotency_key="k")
        take_turns(settings, started.ulid, again.ulid)
        event = almanac.emit("permits.moved", {"case": "A"}, owner=("team", team))
        take_turns(settings, started.ulid)
        view = almanac.show(started.ulid)
        found = almanac.list(owner=("team", team), subject=("permit", "P/1"))
        with pytest.raises(InvalidInput):
            almanac.start("permits", owner=("team", "not a uuid"))
        with pytest.raises(InvalidInput):
            almanac.start("permits", starter=("u", "not a ulid"))

    assert isinstance(event, str)
    assert view.status == "completed"
    assert (view.owner, view.subject) is not None
    assert view.owner is not None
    assert view.owner.id == str(team)
    assert [one.ulid for one in found.items] == [started.ulid]


def test_the_limit_of_payloads_is_a_setting(database_url: str) -> None:
    settings = Settings(database_url=database_url, limits=Limits(max_payload_bytes=1024))
    with Almanac(settings, registry=Registry()) as almanac:
        almanac.publish(document())
        almanac.start("permits", "x" * 1022)
        with pytest.raises(InvalidInput):
            almanac.start("permits", "x" * 1023)
