from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from adapter.errors import InvalidInput
from tests.services.graphs import document, triggered, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.client.almanac import Almanac
    from tests.services.conftest import Rows

DIGEST = "SELECT md5(%s || chr(10) || (%s::jsonb)::text)::uuid AS digest"


def test_an_event_carries_a_digest_for_each_set_of_fields_that_it_has(
    almanac: Almanac, rows: Rows
) -> None:
    almanac.publish(waiting("one", event="moved", match={"case": 1}))
    almanac.publish(waiting("two", event="moved", match={"case": 1, "to": 1}))
    almanac.publish(waiting("three", event="moved", match={"lost": 1}))
    almanac.publish(waiting("four", event="moved"))

    almanac.emit("moved", {"to": None, "n": 2, "case": "A"})

    (event,) = rows("SELECT * FROM workflow_events")
    expected = [
        rows(DIGEST, "moved", fields)[0]["digest"]
        for fields in ('{"case": "A"}', '{"to": null, "case": "A"}', "{}")
    ]
    assert sorted(event["digests"]) == sorted(expected)
    assert (event["key"], event["owner_scope"], event["epoch"]) == ("moved", "*", 4)
    assert (event["payload"], event["matched_at"]) == ({"to": None, "n": 2, "case": "A"}, None)


def test_an_event_that_nobody_waits_for_is_kept_all_the_same(almanac: Almanac, rows: Rows) -> None:
    event = almanac.emit("moved", {}, owner=("team", 1))

    (row,) = rows("SELECT id, owner_scope, digests, epoch FROM workflow_events")
    assert row == {"id": event, "owner_scope": "team:1", "digests": [], "epoch": 0}


def test_an_events_digest_is_that_of_the_wait_which_it_fits(almanac: Almanac, rows: Rows) -> None:
    from tests.services.turns import take_turns

    match = {"a": "${ trigger.a }", "b": 1.5, "ä": [1, {"z": 1, "aa": 2}], "n": 100.0}
    almanac.publish(waiting(event="moved", match=match))
    started = almanac.start("permits", {"a": 10.0})
    take_turns(almanac.settings, started.ulid)

    almanac.emit("moved", {"n": 1e2, "ä": [1, {"aa": 2.0, "z": 1}], "b": 1.5, "a": 10, "more": 1})

    waits = rows(
        "SELECT md5(event_key || chr(10) || match::text)::uuid AS digest FROM workflow_waits"
    )
    events = rows("SELECT digests FROM workflow_events")
    assert events[0]["digests"] == [waits[0]["digest"]]


def test_many_events_keep_their_order_and_get_their_digests(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(waiting(event="moved", match={"case": 1}))
    events = [("moved" if n % 3 else "closed", {"case": n}) for n in range(2_500)]

    ids = almanac.emit_many(events)

    found = rows("SELECT * FROM workflow_events ORDER BY id")
    assert [row["id"] for row in found] == ids
    assert [(row["key"], row["payload"]) for row in found] == events
    assert {(row["key"], len(row["digests"]), row["epoch"]) for row in found} == {
        ("moved", 1, 1),
        ("closed", 0, 0),
    }
    assert almanac.emit_many([]) == []


@pytest.mark.parametrize(
    ("key", "payload", "code"),
    [
        ("", {}, "invalid_event_key"),
        ("a\nb", {}, "invalid_event_key"),
        ("a\0", {}, "invalid_event_key"),
        ("a" * 192, {}, "invalid_event_key"),
        (7, {}, "invalid_event_key"),
        ("moved", None, "invalid_payload"),
        ("moved", [1], "invalid_payload"),
        ("moved", "text", "invalid_payload"),
        ("moved", {"a": math.nan}, "invalid_value"),
        ("moved", {"a": "\0"}, "invalid_value"),
        ("moved", {"a": "x" * 300_000}, "payload_too_large"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bad_event_is_refused_and_leaves_nothing(
    almanac: Almanac, everything: Callable[[], Any], key: Any, payload: Any, code: str
) -> None:
    before = everything()

    with pytest.raises(InvalidInput) as refused:
        almanac.emit(key, payload)
    with pytest.raises(InvalidInput):
        almanac.emit_many([("moved", {}), (key, payload)])

    assert refused.value.code == code
    assert everything() == before


@pytest.mark.parametrize("events", ["moved", {"moved": {}}, None, 5])
def test_one_thing_is_not_many_events(almanac: Almanac, events: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        almanac.emit_many(events)

    assert refused.value.code == "invalid_event"


@pytest.mark.parametrize("event", ["moved", ("moved",), ("moved", {}, 1), None])
def test_what_is_no_pair_is_no_event(almanac: Almanac, event: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        almanac.emit_many([event])

    assert refused.value.code == "invalid_event"


def test_an_event_goes_with_the_callers_transaction(almanac: Almanac, rows: Rows) -> None:
    with almanac.transaction() as connection:
        almanac.emit("moved", {}, connection=connection)
        almanac.emit_many([("moved", {})] * 3, connection=connection)
        connection.rollback()

    assert rows("SELECT 1 FROM workflow_events") == []


def test_who_listens_is_told_by_key_and_owner(almanac: Almanac) -> None:
    team = ("team", 1)
    almanac.publish(waiting(event="a"))
    almanac.publish(waiting("own", event="a", match={"n": 1}), owner=team)
    almanac.publish(triggered("orders", "a"), owner=("team", 2))

    def told(key: str, owner: Any = None) -> tuple[int, int, bool]:
        heard = almanac.listeners(key, owner=owner)
        return heard.waits, heard.triggers, heard.nobody

    assert told("a") == (2, 0, False)
    assert told("a", team) == (2, 0, False)
    assert told("a", ("team", 2)) == (1, 1, False)
    assert told("b") == (0, 0, True)
    almanac.publish(document())
    almanac.publish(document("own"), owner=team)
    assert told("a") == (0, 0, False)
    with pytest.raises(InvalidInput):
        almanac.listeners("")
