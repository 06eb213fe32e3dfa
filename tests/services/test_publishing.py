from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from adapter.errors import Conflict, InvalidDocument, InvalidInput
from adapter.graph.canonical import checksum
from adapter.records.connecting import make_database
from adapter.settings import Settings
from tests.services.graphs import SCHEMA, document, triggered, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.client.almanac import Almanac
    from tests.services.conftest import Rows


def test_a_first_publication_writes_definition_and_version_at_once(
    almanac: Almanac, rows: Rows
) -> None:
    sent = document(
        description="How permits go", subject="permit", settings={"actor_mode": "system"}
    )

    published = almanac.publish(sent, publisher=("user", 5))

    assert (published.key, published.number, published.created) == ("permits", 1, True)
    assert published.checksum == checksum(sent)
    (definition,) = rows("SELECT * FROM workflow_definitions")
    assert definition["id"] == published.definition_id
    assert definition["current_version_id"] == published.version_id
    assert len(definition["webhook_id"]) == 26
    columns = ("key", "name", "description", "owner_scope", "owner_type", "subject_key", "status")
    assert tuple(definition[column] for column in columns) == (
        "permits",
        "Permits",
        "How permits go",
        "*",
        None,
        "permit",
        "active",
    )
    (version,) = rows("SELECT * FROM workflow_versions")
    assert version["graph"] == sent
    assert version["trigger"] == {"type": "manual"}
    assert version["settings"] == {"actor_mode": "system"}
    assert version["published_at"] is not None
    more = ("number", "status", "schema_version", "trigger_type", "trigger_key", "actor_mode")
    assert tuple(version[column] for column in more) == (
        1,
        "published",
        SCHEMA,
        "manual",
        None,
        "system",
    )
    assert (version["publisher_type"], version["publisher_id"]) == ("user", 5)


def test_an_event_trigger_is_kept_where_events_look_it_up(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(triggered("orders", "order.made"))

    (version,) = rows("SELECT trigger_type, trigger_key FROM workflow_versions")
    assert version == {"trigger_type": "event", "trigger_key": "order.made"}


def test_the_current_document_again_makes_no_version(
    almanac: Almanac, everything: Callable[[], Any]
) -> None:
    first = almanac.publish(document())
    before = everything()

    again = almanac.publish(dict(reversed(document().items())))

    assert (again.created, again.number, again.version_id) == (False, 1, first.version_id)
    assert everything() == before


def test_a_changed_document_takes_the_place_of_the_version_before(
    almanac: Almanac, rows: Rows
) -> None:
    first = almanac.publish(document())
    running = almanac.start("permits")

    second = almanac.publish(document(name="New", description="Shorter"))

    assert (second.created, second.number) == (True, 2)
    assert rows("SELECT number, status FROM workflow_versions ORDER BY number") == [
        {"number": 1, "status": "superseded"},
        {"number": 2, "status": "published"},
    ]
    (definition,) = rows("SELECT * FROM workflow_definitions")
    assert definition["current_version_id"] == second.version_id
    assert (definition["name"], definition["description"]) == ("New", "Shorter")
    (instance,) = rows("SELECT version_id FROM workflow_instances WHERE ulid = %s", running.ulid)
    assert instance["version_id"] == first.version_id
    assert almanac.show(almanac.start("permits").ulid).version == 2


def test_an_earlier_document_published_again_is_a_new_version(almanac: Almanac) -> None:
    first = almanac.publish(document())
    almanac.publish(document(name="Other"))

    third = almanac.publish(document())

    assert (third.number, third.checksum) == (3, first.checksum)


def test_the_text_of_a_document_is_the_same_as_the_document(almanac: Almanac) -> None:
    import json

    first = almanac.publish(document())

    assert almanac.publish(json.dumps(document(), indent=3)).created is False
    assert almanac.publish(json.dumps(document()).encode()).checksum == first.checksum


def test_a_bad_document_is_refused_with_all_findings_and_leaves_nothing(
    almanac: Almanac, everything: Callable[[], Any]
) -> None:
    before = everything()
    bad = document(colour="red")
    bad["nodes"].append({"id": "call", "type": "action", "config": {"action": "permits.lost"}})
    bad["edges"].append({"from": "nowhere", "to": "done"})

    with pytest.raises(InvalidDocument) as refused:
        almanac.publish(bad)

    findings = refused.value.details["findings"]
    assert {"/colour", "/edges/1/from"} <= {finding["pointer"] for finding in findings}
    assert all(finding["remedy"] for finding in findings)
    assert everything() == before


def test_an_unknown_action_is_refused_by_name(almanac: Almanac) -> None:
    asking = document()
    asking["nodes"].append({"id": "call", "type": "action", "config": {"action": "permits.lost"}})
    asking["edges"] = [{"from": "begin", "to": "call"}, {"from": "call", "to": "done"}]

    with pytest.raises(InvalidDocument, match=r"permits\.lost") as refused:
        almanac.publish(asking)

    assert [f["code"] for f in refused.value.details["findings"]] == ["unknown_action"]
    assert almanac.publish(asking, check_actions=False).created


@pytest.mark.parametrize("sent", ['{"schema": ', "[1]", '{"a": NaN}', b"\xff", "null"])
def test_text_that_is_no_document_is_refused(almanac: Almanac, sent: str | bytes) -> None:
    with pytest.raises(InvalidDocument):
        almanac.publish(sent)


def test_a_wrong_expected_checksum_changes_nothing(
    almanac: Almanac, everything: Callable[[], Any]
) -> None:
    first = almanac.publish(document())
    before = everything()

    with pytest.raises(Conflict) as refused:
        almanac.publish(document(name="Other"), expected_checksum="0" * 64)

    assert refused.value.code == "checksum_mismatch"
    assert refused.value.details["actual"] == first.checksum
    assert everything() == before


def test_the_current_checksum_lets_a_publication_pass(almanac: Almanac) -> None:
    first = almanac.publish(document())

    second = almanac.publish(document(name="Other"), expected_checksum=first.checksum)

    assert second.number == 2


def test_a_checksum_for_a_definition_that_does_not_exist_changes_nothing_even_if_committed(
    almanac: Almanac, everything: Callable[[], Any]
) -> None:
    before = everything()

    with almanac.transaction() as connection, pytest.raises(Conflict) as refused:
        almanac.publish(document(), expected_checksum="0" * 64, connection=connection)

    assert refused.value.code == "checksum_mismatch"
    assert everything() == before


@pytest.mark.parametrize("checksum", ["", "abc", "g" * 64, "A" * 64, 7])
def test_what_is_no_checksum_is_refused(almanac: Almanac, checksum: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        almanac.publish(document(), expected_checksum=checksum)

    assert refused.value.code == "invalid_checksum"


def test_a_deleted_definition_still_holds_its_key(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(document())
    rows("UPDATE workflow_definitions SET deleted_at = now()")

    with pytest.raises(Conflict) as refused:
        almanac.publish(document(name="Other"))

    assert refused.value.code == "definition_deleted"


def test_a_publication_does_not_resume_what_was_paused(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(document())
    rows("UPDATE workflow_definitions SET status = 'paused'")

    almanac.publish(document(name="Other"))

    assert rows("SELECT status FROM workflow_definitions") == [{"status": "paused"}]


def test_a_publication_brings_an_archived_definition_back(almanac: Almanac, rows: Rows) -> None:
    for sent in (document(), document(), document(name="Other")):
        almanac.publish(sent)
        assert rows("SELECT status FROM workflow_definitions") == [{"status": "active"}]
        rows("UPDATE workflow_definitions SET status = 'archived'")


def test_owners_have_definitions_of_their_own(almanac: Almanac, rows: Rows) -> None:
    published = [
        almanac.publish(document(), owner=owner) for owner in (None, ("team", 1), ("team", 2))
    ]

    assert [one.number for one in published] == [1, 1, 1]
    scopes = rows("SELECT owner_scope, owner_type, owner_id FROM workflow_definitions ORDER BY id")
    assert [tuple(row.values()) for row in scopes] == [
        ("*", None, None),
        ("team:1", "team", 1),
        ("team:2", "team", 2),
    ]


def test_publishers_at_the_same_time_make_one_version_each(almanac: Almanac, rows: Rows) -> None:
    documents = [document(name=f"Name {n}") for n in range(6)]

    with ThreadPoolExecutor(6) as together:
        published = list(together.map(almanac.publish, documents))

    assert sorted(one.number for one in published) == [1, 2, 3, 4, 5, 6]
    assert len(rows("SELECT 1 FROM workflow_definitions")) == 1
    current = rows("SELECT id, number FROM workflow_versions WHERE status = 'published'")
    assert [row["number"] for row in current] == [6]
    assert rows("SELECT current_version_id AS id FROM workflow_definitions") == [
        {"id": current[0]["id"]}
    ]


def test_of_publishers_that_expect_the_same_version_one_wins(almanac: Almanac) -> None:
    first = almanac.publish(document())

    def publish(number: int) -> str:
        try:
            changed = document(name=f"Name {number}")
            almanac.publish(changed, expected_checksum=first.checksum)
        except Conflict as refused:
            return refused.code
        return "published"

    with ThreadPoolExecutor(4) as together:
        outcomes = sorted(together.map(publish, range(4)))

    assert outcomes == ["checksum_mismatch"] * 3 + ["published"]


def test_the_fields_that_waits_match_on_are_registered_once_each(
    almanac: Almanac, rows: Rows
) -> None:
    fields = "SELECT event_key, epoch, fields FROM workflow_event_fields ORDER BY 1, 2"
    almanac.publish(waiting("one", event="moved", match={"b": 1, "a": 2, "Z": 3}))
    almanac.publish(waiting("two", event="moved"))
    almanac.publish(waiting("three", event="moved", match={"a": 5, "Z": 6, "b": 7}))
    almanac.publish(waiting("four", event="closed", match={"case": 1}))

    assert [tuple(row.values()) for row in rows(fields)] == [
        ("closed", 1, ["case"]),
        ("moved", 1, ["Z", "a", "b"]),
        ("moved", 2, []),
    ]


def test_sets_registered_at_the_same_time_get_epochs_of_their_own(
    almanac: Almanac, rows: Rows
) -> None:
    documents = [waiting(f"key{n}", event="moved", match={f"field{n}": 1}) for n in range(6)]

    with ThreadPoolExecutor(6) as together:
        list(together.map(almanac.publish, documents))

    found = rows("SELECT epoch, fields FROM workflow_event_fields ORDER BY epoch")
    assert [row["epoch"] for row in found] == [1, 2, 3, 4, 5, 6]
    assert sorted(row["fields"] for row in found) == [[f"field{n}"] for n in range(6)]


def test_a_connection_without_a_transaction_is_refused(
    almanac: Almanac, database_url: str, everything: Callable[[], Any]
) -> None:
    before = everything()
    engine = make_database(Settings(database_url=database_url))
    engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(InvalidInput) as refused:
        almanac.publish(document(), connection=connection)
    engine.dispose()

    assert refused.value.code == "transaction_required"
    assert everything() == before


def test_a_publication_goes_with_the_callers_transaction(
    almanac: Almanac, everything: Callable[[], Any]
) -> None:
    before = everything()

    with almanac.transaction() as connection:
        almanac.publish(waiting(), connection=connection)
        connection.rollback()

    assert everything() == before
