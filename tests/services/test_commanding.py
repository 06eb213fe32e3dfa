from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from adapter.client.almanac import Almanac
from adapter.errors import Conflict, InvalidInput, NotFound, NotSupported, Unavailable
from adapter.execution.registry import Registry
from adapter.services.commanding import Receipt
from adapter.settings import Settings
from tests.services.graphs import document, waiting
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.services.conftest import Rows

UNKNOWN = "01JZ8X0V5M6T3C2R9Q4K7W1N8B"
ALIVE = ("pending", "running", "waiting", "paused")
ENDED = ("completed", "failed", "cancelled")
SEND: dict[str, Callable[[Almanac, str], Receipt]] = {
    "signal": lambda almanac, ulid: almanac.signal(ulid, "moved"),
    "pause": lambda almanac, ulid: almanac.pause(ulid),
    "resume": lambda almanac, ulid: almanac.resume(ulid),
    "cancel": lambda almanac, ulid: almanac.cancel(ulid),
    "retry": lambda almanac, ulid: almanac.retry(ulid),
}
TAKEN = {
    "signal": ALIVE,
    "pause": ("pending", "running", "waiting"),
    "resume": ("paused",),
    "cancel": ALIVE,
    "retry": ("failed",),
}


@pytest.fixture
def ulid(almanac: Almanac) -> str:
    almanac.publish(waiting())
    return almanac.start("permits").ulid


def written(rows: Rows) -> list[dict[str, Any]]:
    return rows("SELECT * FROM workflow_inbox WHERE kind <> 'start' ORDER BY id")


def become(rows: Rows, status: str) -> None:
    rows("UPDATE workflow_instances SET status = %s", status)


def stamp(rows: Rows, receipt: Receipt, result: str = '{"status": "done"}') -> None:
    """Does to a row what the instance does when it applies it."""
    rows(
        "UPDATE workflow_inbox SET applied_at = clock_timestamp(), result = %s WHERE id = %s",
        result,
        receipt.id,
    )


def test_a_command_is_one_row_that_nobody_has_applied(
    almanac: Almanac, rows: Rows, ulid: str
) -> None:
    receipt = almanac.signal(
        ulid, "moved", {"to": "B", "n": 2.0}, "A-17", sender=("user", 3)
    )  # fmt: skip

    (row,) = written(rows)
    assert receipt == Receipt(row["id"], ulid, "signal")
    assert receipt.as_json() == {"id": row["id"], "ulid": ulid, "kind": "signal"}
    told = {"name": "moved", "payload": {"to": "B", "n": 2}, "correlation": "A-17"}
    assert (row["kind"], row["payload"], row["sender"]) == ("signal", told, "user:3")
    assert (row["event_id"], row["poked_at"], row["applied_at"], row["result"]) == (None,) * 4


@pytest.mark.parametrize("kind", SEND)
def test_a_ulid_of_a_command_may_be_typed_in_lower_case(
    almanac: Almanac, rows: Rows, ulid: str, kind: str
) -> None:
    become(rows, TAKEN[kind][0])

    receipt = SEND[kind](almanac, ulid.lower())

    assert receipt.ulid == ulid
    assert almanac.applied(Receipt(receipt.id, ulid.lower(), kind)) is None


def test_each_command_says_what_the_instance_needs_to_know(
    almanac: Almanac, rows: Rows, ulid: str
) -> None:
    almanac.signal(ulid, "moved")
    almanac.pause(ulid, "the office is closed")
    almanac.resume(ulid)
    almanac.cancel(ulid, reason="withdrawn")
    almanac.cancel(ulid)

    assert [(row["kind"], row["payload"], row["sender"]) for row in written(rows)] == [
        ("signal", {"name": "moved", "payload": {}}, None),
        ("pause", {"reason": "the office is closed"}, None),
        ("resume", {}, None),
        ("cancel", {"reason": "withdrawn"}, None),
        ("cancel", {}, None),
    ]


@pytest.mark.parametrize("kind", SEND)
def test_an_instance_that_is_not_there_is_not_found(
    almanac: Almanac, kind: str, ulid: str, rows: Rows
) -> None:
    with pytest.raises(NotFound) as refused:
        SEND[kind](almanac, UNKNOWN)

    assert refused.value.code == "instance_not_found"
    with pytest.raises(InvalidInput) as refused_text:
        SEND[kind](almanac, "permits")
    assert refused_text.value.code == "invalid_ulid"
    assert written(rows) == []


@pytest.mark.parametrize("kind", SEND)
def test_what_the_status_rules_out_is_refused_at_once(
    almanac: Almanac, rows: Rows, ulid: str, kind: str
) -> None:
    for status in TAKEN[kind]:
        become(rows, status)
        SEND[kind](almanac, ulid)
    assert [row["kind"] for row in written(rows)] == [kind] * len(TAKEN[kind])

    rows("DELETE FROM workflow_inbox WHERE kind <> 'start'")
    for status in {*ALIVE, *ENDED} - {*TAKEN[kind]}:
        become(rows, status)
        with pytest.raises(Conflict) as refused:
            SEND[kind](almanac, ulid)
        code = {"pause": "already_paused", "resume": "not_paused", "retry": "not_failed"}.get(kind)
        ended = status in ENDED and kind != "retry"
        assert refused.value.code == ("ended" if ended else code)
        details = {**refused.value.details}
        assert ("remedy" in details) is (status in ENDED)
        details.pop("remedy", None)
        assert details == {"ulid": ulid, "kind": kind, "status": status}
    assert written(rows) == []


@pytest.mark.parametrize(
    ("status", "first", "second"),
    [
        ("running", "pause", "resume"),
        ("paused", "resume", "pause"),
        ("failed", "retry", "signal"),
        ("failed", "retry", "pause"),
        ("failed", "retry", "cancel"),
    ],
)
def test_a_command_is_taken_where_one_before_it_makes_it_fit(
    almanac: Almanac, rows: Rows, ulid: str, status: str, first: str, second: str
) -> None:
    become(rows, status)
    receipt = SEND[first](almanac, ulid)
    SEND[second](almanac, ulid)
    assert [row["kind"] for row in written(rows)] == [first, second]
    stamp(rows, receipt, '{"status": "refused", "reason": "ended"}')

    with pytest.raises(Conflict):
        SEND[second](almanac, ulid)


@pytest.mark.parametrize("kind", SEND)
def test_a_command_belongs_to_the_callers_transaction(
    almanac: Almanac, rows: Rows, ulid: str, kind: str
) -> None:
    become(rows, TAKEN[kind][0])
    engine = create_engine(str(almanac.settings.database_url).replace("://", "+psycopg://", 1))
    arguments = ("moved",) if kind == "signal" else ()
    with engine.connect() as connection:
        getattr(almanac, kind)(ulid, *arguments, connection=connection)
        assert written(rows) == []
        connection.rollback()
        getattr(almanac, kind)(ulid, *arguments, connection=connection)
        connection.commit()
    with Session(engine) as session:
        getattr(almanac, kind)(ulid, *arguments, connection=session)
        session.rollback()
    engine.dispose()

    assert [row["kind"] for row in written(rows)] == [kind]


def test_an_instance_may_be_started_and_commanded_in_one_transaction(
    almanac: Almanac, rows: Rows
) -> None:
    almanac.publish(document())
    with almanac.transaction() as connection:
        ulid = almanac.start("permits", connection=connection).ulid
        almanac.signal(ulid, "moved", connection=connection)
        almanac.pause(ulid, connection=connection)
        almanac.resume(ulid, connection=connection)

    assert [row["kind"] for row in written(rows)] == ["signal", "pause", "resume"]


def test_a_refusal_leaves_the_callers_transaction_usable(almanac: Almanac, ulid: str) -> None:
    with almanac.transaction() as connection:
        with pytest.raises(Conflict):
            almanac.resume(ulid, connection=connection)
        almanac.pause(ulid, connection=connection)

    assert [row.kind for row in almanac.inbox(ulid).items] == ["start", "pause"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"name": ""}, "invalid_signal"),
        ({"name": "a\nb"}, "invalid_signal"),
        ({"name": "x" * 192}, "invalid_signal"),
        ({"name": 7}, "invalid_signal"),
        ({"payload": [1]}, "invalid_payload"),
        ({"payload": "text"}, "invalid_payload"),
        ({"payload": {"n": math.nan}}, "invalid_value"),
        ({"payload": {"n": 2**60}}, "invalid_value"),
        ({"payload": {"t": "\x00"}}, "invalid_value"),
        ({"payload": {"t": "\ud800"}}, "invalid_value"),
        ({"payload": {"t": object()}}, "invalid_value"),
        ({"payload": {"t": "x" * 300_000}}, "payload_too_large"),
        ({"correlation": ""}, "invalid_correlation"),
        ({"correlation": 7}, "invalid_correlation"),
        ({"sender": "user"}, "invalid_reference"),
        ({"sender": ("user", "three")}, "invalid_reference"),
    ],
)
def test_a_signal_that_cannot_be_kept_is_refused(
    almanac: Almanac, rows: Rows, ulid: str, arguments: dict[str, Any], code: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        almanac.signal(ulid, **{"name": "moved", **arguments})

    assert refused.value.code == code
    assert written(rows) == []


@pytest.mark.parametrize("reason", ["", "x" * 1_001, "two\nlines", 7])
@pytest.mark.parametrize("kind", ["pause", "cancel"])
def test_a_reason_must_be_a_short_text(almanac: Almanac, ulid: str, kind: str, reason: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        getattr(almanac, kind)(ulid, reason)

    assert refused.value.code == "invalid_reason"


def test_what_became_of_a_command_is_told_once_it_was_applied(
    almanac: Almanac, rows: Rows, ulid: str
) -> None:
    pause, signal = almanac.pause(ulid), almanac.signal(ulid, "moved")
    assert almanac.applied(pause) is None
    stamp(rows, pause)
    stamp(rows, signal, '{"status": "refused", "reason": "ended"}')

    done, refused = almanac.wait_applied(pause, 0), almanac.wait_applied(signal, timeout=0)

    assert (done.status, done.reason, done.done, done.as_error()) == ("done", None, True, None)
    assert (refused.status, refused.reason, refused.done) == ("refused", "ended", False)
    error = refused.as_error()
    assert isinstance(error, Conflict)
    assert (error.code, error.details) == (
        "ended",
        {"ulid": ulid, "kind": "signal", "id": signal.id, "status": "pending"},
    )
    assert almanac.applied(signal) == refused


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("not_supported", NotSupported), ("nothing_to_retry", Conflict), ("something_new", Conflict)],
)
def test_a_refusal_by_the_instance_has_its_reason_for_a_code(
    almanac: Almanac, rows: Rows, ulid: str, reason: str, kind: type[Exception]
) -> None:
    receipt = almanac.signal(ulid, "moved")
    stamp(rows, receipt, f'{{"status": "refused", "reason": "{reason}"}}')

    error = almanac.wait_applied(receipt, 0).as_error()

    assert type(error) is kind
    assert error is not None
    assert error.code == reason


def test_waiting_for_a_command_ends_when_its_time_is_up(almanac: Almanac, ulid: str) -> None:
    receipt = almanac.pause(ulid)

    with pytest.raises(Unavailable) as late:
        almanac.wait_applied(receipt, 0.02)

    assert late.value.code == "wait_timeout"
    assert (late.value.details["ulid"], late.value.details["id"]) == (ulid, receipt.id)
    with pytest.raises(InvalidInput) as refused:
        almanac.wait_applied(receipt, -1)
    assert refused.value.code == "invalid_timeout"


def test_an_instance_applies_commands_in_the_order_of_their_rows(
    almanac: Almanac, ulid: str
) -> None:
    pause, again = almanac.pause(ulid), almanac.pause(ulid)
    take_turns(almanac.settings, ulid)
    paused = almanac.show(ulid).status
    resume, cancel = almanac.resume(ulid), almanac.cancel(ulid)
    late = almanac.signal(ulid, "moved")
    take_turns(almanac.settings, ulid)

    results = [almanac.wait_applied(one, 0) for one in (pause, again, resume, cancel, late)]

    assert [(one.status, one.reason) for one in results] == [
        ("done", None),
        ("refused", "already_paused"),
        ("done", None),
        ("done", None),
        ("refused", "ended"),
    ]
    assert (paused, almanac.show(ulid).status) == ("paused", "cancelled")
    assert almanac.show(ulid).commands == ()


def test_a_command_that_was_rolled_back_is_not_found(almanac: Almanac, ulid: str) -> None:
    with almanac.transaction() as connection:
        receipt = almanac.pause(ulid, connection=connection)
        assert almanac.applied(receipt, connection=connection) is None
        connection.rollback()

    with pytest.raises(NotFound) as refused:
        almanac.wait_applied(receipt, 60)
    assert refused.value.code == "command_not_found"


def test_an_inbox_is_read_newest_last(almanac: Almanac, rows: Rows, ulid: str) -> None:
    almanac.signal(ulid, "moved", {"n": 1}, sender=("user", 3))
    stamp(rows, almanac.pause(ulid), '{"status": "refused", "reason": "ended"}')
    event = almanac.emit("permits.moved", {"n": 2})
    rows(
        "INSERT INTO workflow_inbox (instance_id, kind, event_id)"
        " SELECT id, 'event', %s FROM workflow_instances",
        event,
    )

    page = almanac.inbox(ulid)

    assert page.next is None
    assert [(row.kind, row.status, row.reason, row.event) for row in page.items] == [
        ("start", "open", None, None),
        ("signal", "open", None, None),
        ("pause", "refused", "ended", None),
        ("event", "open", None, "permits.moved"),
    ]
    assert page.items[1].payload == {"name": "moved", "payload": {"n": 1}}
    assert page.items[1].sender == "user:3"
    assert (page.items[1].applied_at, page.items[3].payload) == (None, {"n": 2})
    assert page.items[2].applied_at is not None
    unapplied = almanac.inbox(ulid, unapplied=True).items
    assert [row.kind for row in unapplied] == ["start", "signal", "event"]


def test_an_inbox_is_read_by_the_page_from_its_end(almanac: Almanac, ulid: str) -> None:
    sent = [almanac.signal(ulid, f"s{n}").id for n in range(5)]

    last = almanac.inbox(ulid, limit=2)
    before = almanac.inbox(ulid, limit=2, cursor=last.next)
    first = almanac.inbox(ulid, limit=2, cursor=before.next)

    assert [row.id for row in last.items] == sent[3:]
    assert [row.id for row in before.items] == sent[1:3]
    assert [row.id for row in first.items][1:] == sent[:1]
    assert (first.items[0].kind, first.next) == ("start", None)
    assert almanac.inbox(ulid, unapplied=True, cursor=str(sent[0])).items == first.items[:1]
    for wrong in ({"limit": 0}, {"limit": 501}, {"limit": "x"}, {"cursor": "x"}, {"cursor": "-1"}):
        with pytest.raises(InvalidInput) as refused:
            almanac.inbox(ulid, **wrong)
        assert refused.value.code == "invalid_filter"
    with pytest.raises(NotFound):
        almanac.inbox(UNKNOWN)


@pytest.mark.parametrize("kind", ["uuid", "ulid"])
def test_commands_work_with_every_type_of_key(empty_database_url: str, kind: Any) -> None:
    settings = Settings(database_url=empty_database_url, primary_key_type=kind, key_type="string")
    with Almanac(settings, registry=Registry()) as almanac:
        almanac.migrate()
        almanac.publish(document())
        ulid = almanac.start("permits").ulid
        receipt = almanac.pause(ulid, sender=("user", "mia"))
        almanac.signal(ulid, "moved")

        assert almanac.applied(receipt) is None
        page = almanac.inbox(ulid, limit=1)
        (row,) = almanac.inbox(ulid, limit=1, cursor=page.next).items
        assert (row.id, row.sender) == (receipt.id, "user:mia")
        with pytest.raises(InvalidInput):
            almanac.inbox(ulid, cursor="7")


@pytest.mark.parametrize(
    ("status", "code", "told", "remedy"),
    [
        ("completed", None, "has ended; it completed at 2026-01-31 08:00:00Z", "almanac start KEY"),
        ("cancelled", None, "has ended; it was cancelled at 2026-01-31 08:00:00Z", "almanac start"),
        (
            "failed",
            "step_failed",
            "has ended; it failed with step_failed at 2026-01-31 08:00:00Z",
            "almanac retry ULID",
        ),
    ],
)
def test_a_refusal_tells_how_the_instance_ended_and_what_to_do(
    almanac: Almanac, rows: Rows, ulid: str, status: str, code: str | None, told: str, remedy: str
) -> None:
    receipt = almanac.signal(ulid, "moved")
    stamp(rows, receipt, '{"status": "refused", "reason": "ended"}')
    rows(
        "UPDATE workflow_instances SET status = %s, failure_code = %s,"
        " ended_at = '2026-01-31T08:00:00Z'",
        status,
        code,
    )

    with pytest.raises(Conflict) as refused:
        almanac.signal(ulid, "moved")
    later = almanac.wait_applied(receipt, 0).as_error()

    assert later is not None
    for error in (refused.value, later):
        assert error.message == f"signal refused: instance {ulid} {told}"
        assert remedy in error.details["remedy"]
        assert error.details["status"] == status


def test_a_refusal_tells_how_the_instance_stands(almanac: Almanac, rows: Rows, ulid: str) -> None:
    become(rows, "waiting")
    with pytest.raises(Conflict, match=r"there is nothing to resume; it is waiting$"):
        almanac.resume(ulid)
    with pytest.raises(Conflict, match=r"there is nothing to retry; it is waiting$"):
        almanac.retry(ulid)
    receipt = almanac.signal(ulid, "moved")
    stamp(rows, receipt, '{"status": "refused", "reason": "ended"}')

    error = almanac.wait_applied(receipt, 0).as_error()

    assert error is not None
    assert error.message.endswith("has ended when it got to it; now it is waiting")
    assert "remedy" not in error.details


def test_of_overlapping_transactions_the_one_committed_first_may_be_applied_first(
    almanac: Almanac, ulid: str
) -> None:
    with almanac.transaction() as slow:
        first = almanac.signal(ulid, "moved", {"n": 1}, connection=slow)
        second = almanac.signal(ulid, "moved", {"n": 2})
        take_turns(almanac.settings, ulid)
        assert almanac.wait_applied(second, 0).done
    take_turns(almanac.settings, ulid)

    one, two = almanac.wait_applied(first, 0), almanac.wait_applied(second, 0)

    assert int(one.id) < int(two.id)
    assert two.applied_at < one.applied_at


def test_commands_of_one_sender_after_another_are_applied_in_that_order(
    almanac: Almanac, ulid: str
) -> None:
    for n in range(3):
        with almanac.transaction() as connection:
            almanac.signal(ulid, "moved", {"n": n}, connection=connection)
    take_turns(almanac.settings, ulid)

    assert [signal.payload["n"] for signal in almanac.show(ulid).signals] == [0, 1, 2]
