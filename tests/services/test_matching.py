from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from adapter.services.matching import MatchReport, match_events
from tests.services.graphs import document, triggered, waiting
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac
    from tests.services.conftest import Rows

CASE = {"case": "${ trigger.case }"}
DELIVERED = """
SELECT i.trigger_payload ->> 'case' AS case, b.event_id FROM workflow_inbox b
JOIN workflow_instances i ON i.id = b.instance_id WHERE b.kind = 'event' ORDER BY 1, 2"""


def match(almanac: Almanac, limit: int = 500) -> MatchReport:
    with almanac.transaction() as connection:
        return match_events(connection, almanac.settings, limit)


def wait_for(almanac: Almanac, *cases: str, owner: Any = None) -> list[str]:
    started = [almanac.start("permits", {"case": case}, owner=owner).ulid for case in cases]
    take_turns(almanac.settings, *started)
    return started


def test_an_event_reaches_the_instances_that_wait_for_it(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(waiting(match=CASE))
    wait_for(almanac, "A", "B", "B")
    event = almanac.emit("permits.moved", {"case": "B", "to": "office"})
    almanac.emit("permits.moved", {"case": "C"})
    almanac.emit("permits.closed", {"case": "A"})

    assert match(almanac) == MatchReport(events=3, deliveries=2, starts=0)

    assert rows(DELIVERED) == [{"case": "B", "event_id": event}] * 2
    (row,) = rows(
        "SELECT DISTINCT payload, applied_at, poked_at FROM workflow_inbox WHERE event_id"
        " IS NOT NULL"
    )
    assert set(row.values()) == {None}


def test_an_event_is_matched_once(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(waiting(match=CASE))
    wait_for(almanac, "A")
    almanac.emit("permits.moved", {"case": "A"})
    match(almanac)

    assert match(almanac) == MatchReport(events=0, deliveries=0, starts=0)
    assert rows("SELECT 1 FROM workflow_events WHERE matched_at IS NULL") == []


def test_a_wait_is_told_of_the_lowest_event_and_takes_them_in_order(almanac: Almanac) -> None:
    almanac.publish(waiting(match=CASE))
    (ulid,) = wait_for(almanac, "A")
    almanac.emit_many([("permits.moved", {"case": "A", "n": n}) for n in range(5)])

    assert match(almanac) == MatchReport(events=5, deliveries=1, starts=0)

    take_turns(almanac.settings, ulid)
    assert almanac.show(ulid).steps[1].output == {"case": "A", "n": 0}


def test_events_are_taken_by_id_up_to_the_limit(almanac: Almanac, rows: Rows) -> None:
    ids = almanac.emit_many([("permits.moved", {"n": n}) for n in range(5)])

    assert match(almanac, 3).events == 3

    left = rows("SELECT id FROM workflow_events WHERE matched_at IS NULL ORDER BY id")
    assert [row["id"] for row in left] == ids[3:]
    assert match(almanac, 3).events == 2


def test_an_instance_that_has_ended_gets_nothing(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(waiting(match=CASE))
    wait_for(almanac, "A")
    rows("UPDATE workflow_instances SET status = 'cancelled'")
    almanac.emit("permits.moved", {"case": "A"})

    assert match(almanac).deliveries == 0


def test_an_event_of_an_owner_reaches_that_owners_instances_only(
    almanac: Almanac, rows: Rows
) -> None:
    almanac.publish(waiting(match=CASE))
    wait_for(almanac, "A")
    wait_for(almanac, "A", owner=("team", 1))
    wait_for(almanac, "A", owner=("team", 2))
    almanac.emit("permits.moved", {"case": "A"}, owner=("team", 1))

    assert match(almanac).deliveries == 1
    (reached,) = rows(
        "SELECT owner_id FROM workflow_instances i JOIN workflow_inbox b ON"
        " b.instance_id = i.id WHERE b.kind = 'event'"
    )
    assert reached == {"owner_id": 1}

    almanac.emit("permits.moved", {"case": "A"})
    assert match(almanac).deliveries == 3


def test_an_event_that_is_older_than_the_fields_of_a_wait_still_reaches_it(
    almanac: Almanac, rows: Rows
) -> None:
    almanac.publish(waiting("other", match={"to": 1}))
    with almanac.transaction() as connection:
        almanac.emit("permits.moved", {"case": "A", "to": 2}, connection=connection)
        # Published and waiting before the event is committed: its digests know nothing of it.
        almanac.publish(waiting(match=CASE))
        wait_for(almanac, "A")

    assert match(almanac) == MatchReport(events=1, deliveries=1, starts=0)
    (event,) = rows("SELECT epoch, cardinality(digests) AS digests FROM workflow_events")
    assert event == {"epoch": 2, "digests": 2}


def test_an_event_starts_the_definitions_that_it_triggers(almanac: Almanac, rows: Rows) -> None:
    published = almanac.publish(triggered("orders", "order.made"))
    almanac.publish(triggered("other", "order.lost"))
    event = almanac.emit("order.made", {"amount": 5})

    assert match(almanac) == MatchReport(events=1, deliveries=0, starts=1)

    (instance,) = rows("SELECT * FROM workflow_instances")
    columns = ("version_id", "trigger_type", "trigger_key", "trigger_payload", "status")
    assert tuple(instance[column] for column in columns) == (
        published.version_id,
        "event",
        "order.made",
        {"amount": 5},
        "pending",
    )
    assert instance["root_instance_id"] == instance["id"]
    (inbox,) = rows("SELECT kind, payload FROM workflow_inbox")
    assert inbox == {"kind": "start", "payload": {"snapshot": None, "after": event}}


def test_what_an_event_has_started_takes_the_events_after_it(almanac: Almanac) -> None:
    graph = waiting("orders", event="order.paid", match={"id": "${ trigger.id }"})
    graph["nodes"][0]["config"] = {"type": "event", "event": "order.made"}
    almanac.publish(graph)
    almanac.emit("order.paid", {"id": 7, "n": "before"})
    almanac.emit("order.made", {"id": 7})
    almanac.emit("order.paid", {"id": 7, "n": "after"})

    assert match(almanac) == MatchReport(events=3, deliveries=0, starts=1)

    (one,) = almanac.list().items
    take_turns(almanac.settings, one.ulid)
    view = almanac.show(one.ulid)
    assert view.status == "completed"
    assert view.steps[1].output == {"id": 7, "n": "after"}


@pytest.mark.parametrize(
    "condition",
    [{"field": "trigger.amount", "op": "gt", "value": 100}, "trigger.amount > 100.0"],
)
def test_a_trigger_condition_decides(almanac: Almanac, condition: Any) -> None:
    almanac.publish(triggered("orders", "order.made", condition))
    almanac.emit_many([("order.made", {"amount": amount}) for amount in (50, 101, 200.5)])

    assert match(almanac).starts == 2

    payloads = {almanac.show(one.ulid).trigger_payload["amount"] for one in almanac.list().items}
    assert payloads == {101, 200.5}


def test_a_condition_that_fails_starts_nothing_and_holds_nothing_up(
    almanac: Almanac, caplog: pytest.LogCaptureFixture
) -> None:
    almanac.publish(triggered("orders", "order.made", "trigger.amount > 100"))
    almanac.publish(triggered("all", "order.made"))
    almanac.emit("order.made", {"total": 5})

    assert match(almanac) == MatchReport(events=1, deliveries=0, starts=1)

    assert "trigger condition failed" in caplog.text
    assert [one.key for one in almanac.list().items] == ["all"]


def test_only_what_is_active_and_current_is_triggered(almanac: Almanac, rows: Rows) -> None:
    for key in ("paused", "archived", "deleted", "changed"):
        almanac.publish(triggered(key, "order.made"))
    almanac.publish(document("changed"))
    rows("UPDATE workflow_definitions SET status = key WHERE key IN ('paused', 'archived')")
    rows("UPDATE workflow_definitions SET deleted_at = now() WHERE key = 'deleted'")
    almanac.emit("order.made", {})

    assert match(almanac).starts == 0


def test_owners_events_start_their_own_definitions_and_the_application_wide_ones(
    almanac: Almanac, rows: Rows
) -> None:
    almanac.publish(triggered("own", "order.made"), owner=("team", 1))
    almanac.publish(triggered("others", "order.made"), owner=("team", 2))
    almanac.publish(triggered("wide", "order.made"))
    almanac.publish(triggered("both", "order.made"))
    almanac.publish({**triggered("both", "order.made"), "name": "Mine"}, owner=("team", 1))
    started = """
SELECT d.name, i.owner_type || ':' || i.owner_id AS owner FROM workflow_instances i
JOIN workflow_definitions d ON d.id = i.definition_id ORDER BY i.id"""

    almanac.emit("order.made", {}, owner=("team", 1))
    assert match(almanac).starts == 3
    assert sorted(tuple(row.values()) for row in rows(started)) == [
        ("Mine", "team:1"),
        ("Own", "team:1"),
        ("Wide", "team:1"),
    ]

    rows("DELETE FROM workflow_instances")
    almanac.emit("order.made", {})
    assert match(almanac).starts == 2
    assert sorted(tuple(row.values()) for row in rows(started)) == [("Both", None), ("Wide", None)]


def test_matchers_at_the_same_time_share_the_events(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(triggered("orders", "order.made"))
    almanac.emit_many([("order.made", {"n": n}) for n in range(200)])

    def all_of_them(_: int) -> int:
        taken = 0
        while (report := match(almanac, 10)).events:
            taken += report.events
        return taken

    with ThreadPoolExecutor(4) as together:
        taken = list(together.map(all_of_them, range(4)))

    assert sum(taken) == 200
    found = rows("SELECT DISTINCT trigger_payload FROM workflow_instances")
    assert len(found) == len(rows("SELECT 1 FROM workflow_instances")) == 200


def test_a_matcher_passes_over_what_another_one_has_locked(almanac: Almanac) -> None:
    almanac.emit_many([("order.made", {"n": n}) for n in range(30)])

    with almanac.transaction() as first, almanac.transaction() as second:
        assert match_events(first, almanac.settings, 10).events == 10
        assert match_events(second, almanac.settings, 10).events == 10

    assert match(almanac).events == 10


def test_a_match_that_is_rolled_back_is_done_again(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(triggered("orders", "order.made"))
    almanac.emit("order.made", {})
    with almanac.transaction() as connection:
        match_events(connection, almanac.settings)
        connection.rollback()

    assert rows("SELECT 1 FROM workflow_instances") == []
    assert match(almanac).starts == 1
