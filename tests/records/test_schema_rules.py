from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.errors import (
    CheckViolation,
    ForeignKeyViolation,
    NotNullViolation,
    RestrictViolation,
    UniqueViolation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FROZEN = {
    "id": "id + 1000",
    "definition_id": "(SELECT max(id) FROM workflow_definitions)",
    "number": "number + 1",
    "schema_version": "'roundly.workflows.graph/v2'",
    "graph": """graph || '{"name": "other"}'""",
    "trigger": """'{"type": "event"}'""",
    "settings": """'{"actor_mode": "owner"}'""",
    "trigger_type": "'event'",
    "trigger_key": "'permits.filed'",
    "actor_mode": "'owner'",
    "checksum": "repeat('f', 64)",
    "published_at": "NULL",
    "publisher_type": "'user'",
    "publisher_id": "7",
}
FREE = {
    "status": "'superseded'",
    "review_flags": """'["limits"]'""",
    "schedule_cursor_at": "now()",
    "updated_at": "now()",
}


class Rows:
    """Writes rows with whatever a test does not care about filled in."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.count = 0

    def execute(self, statement: str) -> psycopg.Cursor:
        return self.connection.execute(statement)

    def one(self, statement: str) -> Any:
        row = self.execute(statement).fetchone()
        assert row is not None
        return row[0]

    def insert(self, table: str, **values: Any) -> int:
        marks = ", ".join("%s" for _ in values)
        row = self.connection.execute(
            f"INSERT INTO workflow_{table} ({', '.join(values)}) VALUES ({marks}) RETURNING id",
            list(values.values()),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def definition(self) -> int:
        self.count += 1
        return self.insert(
            "definitions", key=f"d{self.count}", name="D", owner_scope="*", status="active"
        )

    def version(self, definition: int | None = None, *, published: bool = True, **more: Any) -> int:
        self.count += 1
        values: dict[str, Any] = {
            "definition_id": definition or self.definition(),
            "number": self.count,
            "status": "published" if published else "draft",
            "schema_version": "roundly.workflows.graph/v1",
            "graph": "{}",
            "trigger": "{}",
            "settings": "{}",
            "trigger_type": "manual",
            "actor_mode": "system",
            "checksum": "0" * 64,
            "published_at": "2026-01-01T00:00:00Z" if published else None,
        }
        return self.insert("versions", **values | more)

    def instance(self, version: int | None = None, **more: Any) -> int:
        self.count += 1
        version = version or self.version()
        values: dict[str, Any] = {
            "ulid": f"{self.count:026}",
            "definition_id": self.one(
                f"SELECT definition_id FROM workflow_versions WHERE id = {version}"
            ),
            "version_id": version,
            "trigger_type": "manual",
            "status": "running",
            "actor_mode": "system",
        }
        return self.insert("instances", **values | more)

    def step_run(self, instance: int, **more: Any) -> int:
        self.count += 1
        values: dict[str, Any] = {
            "instance_id": instance,
            "node_id": "check",
            "node_type": "action",
            "visit": self.count,
            "attempt": 1,
            "status": "running",
            "idempotency_key": "k",
        }
        return self.insert("step_runs", **values | more)

    def wait(self, step_run: int, **more: Any) -> int:
        instance = self.one(f"SELECT instance_id FROM workflow_step_runs WHERE id = {step_run}")
        values = {"instance_id": instance, "step_run_id": step_run, "status": "pending"}
        return self.insert("waits", **values | more)


@pytest.fixture
def rows(database_url: str) -> Iterator[Rows]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.mark.parametrize("column", FROZEN)
def test_a_published_version_refuses_a_change_of(rows: Rows, column: str) -> None:
    version = rows.version()
    rows.definition()
    with pytest.raises(RestrictViolation, match=rf"published, so these .* change: {column}") as e:
        rows.execute(f"UPDATE workflow_versions SET {column} = {FROZEN[column]}")
    assert e.value.diag.message_hint == "Publish a new version instead."
    assert e.value.diag.table_name == "workflow_versions"
    assert rows.one("SELECT count(*) FROM workflow_versions") == 1
    assert rows.one("SELECT id FROM workflow_versions") == version


def test_the_refusal_names_every_column_that_would_change(rows: Rows) -> None:
    rows.version()
    with pytest.raises(RestrictViolation, match=r"change: checksum, number\n"):
        rows.execute(
            "UPDATE workflow_versions SET number = 9, checksum = repeat('a', 64), graph = graph"
        )


@pytest.mark.parametrize("column", FREE)
def test_a_published_version_lets_change(rows: Rows, column: str) -> None:
    rows.version()
    rows.execute(f"UPDATE workflow_versions SET {column} = {FREE[column]}")
    assert rows.one(f"SELECT {column} IS NOT NULL FROM workflow_versions")


def test_every_column_of_a_version_is_either_frozen_or_free(rows: Rows) -> None:
    found = rows.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'workflow_versions'"
    )
    assert {row[0] for row in found} == {*FROZEN, *FREE, "created_at"}


def test_a_draft_may_change_in_every_column_and_be_published(rows: Rows) -> None:
    rows.version(published=False)
    changes = ", ".join(
        f"{column} = {value}" for column, value in FROZEN.items() if column != "published_at"
    )
    rows.execute(f"UPDATE workflow_versions SET {changes}")
    rows.execute("UPDATE workflow_versions SET published_at = now(), status = 'published'")
    with pytest.raises(RestrictViolation):
        rows.execute("UPDATE workflow_versions SET number = 99")


def test_writing_the_same_values_again_is_no_change(rows: Rows) -> None:
    rows.version()
    rows.execute("UPDATE workflow_versions SET graph = graph, checksum = checksum, status = status")


def test_a_published_version_cannot_be_deleted_by_accident(rows: Rows) -> None:
    rows.version()
    with pytest.raises(RestrictViolation, match="may not be deleted") as refused:
        rows.execute("DELETE FROM workflow_versions")
    assert "almanac.allow_version_delete" in str(refused.value.diag.message_hint)


def test_an_operator_can_delete_a_published_version_on_purpose(rows: Rows) -> None:
    rows.version()
    with rows.connection.transaction():
        rows.execute("SET LOCAL almanac.allow_version_delete = 'on'")
        rows.execute("DELETE FROM workflow_versions")
    assert rows.one("SELECT count(*) FROM workflow_versions") == 0
    rows.version()
    with pytest.raises(RestrictViolation):
        rows.execute("DELETE FROM workflow_versions")


def test_a_draft_can_be_deleted(rows: Rows) -> None:
    rows.version(published=False)
    rows.execute("DELETE FROM workflow_versions")
    assert rows.one("SELECT count(*) FROM workflow_versions") == 0


def test_an_instance_stays_on_its_version(rows: Rows) -> None:
    definition = rows.definition()
    first, second = rows.version(definition), rows.version(definition)
    instance = rows.instance(first)
    with pytest.raises(RestrictViolation, match="stays on the version"):
        rows.execute(f"UPDATE workflow_instances SET version_id = {second}")
    rows.execute(f"UPDATE workflow_instances SET version_id = {first}, status = 'failed'")
    assert rows.one(f"SELECT version_id FROM workflow_instances WHERE id = {instance}") == first


def test_the_journal_is_written_once_and_goes_with_its_instance(rows: Rows) -> None:
    instance = rows.instance()
    rows.execute(
        "INSERT INTO workflow_journal (instance_id, seq, kind, data, writer, interpreter) "
        f"VALUES ({instance}, 1, 'started', '{{}}', repeat('0', 26), 1)"
    )
    with pytest.raises(RestrictViolation, match=rf"entry 1 of instance {instance} may not change"):
        rows.execute("UPDATE workflow_journal SET kind = 'other'")
    rows.execute("DELETE FROM workflow_instances")
    assert rows.one("SELECT count(*) FROM workflow_journal") == 0


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("versions", "number"),
        ("instances", "steps_count"),
        ("instances", "depth"),
        ("instances", "lock_version"),
        ("step_runs", "visit"),
        ("step_runs", "attempt"),
    ],
)
def test_unsigned_numbers_refuse_to_be_negative(rows: Rows, table: str, column: str) -> None:
    rows.step_run(rows.instance(rows.version(published=False)))
    with pytest.raises(CheckViolation, match=f"ck_workflow_{table}_{column}"):
        rows.execute(f"UPDATE workflow_{table} SET {column} = -1")
    rows.execute(f"UPDATE workflow_{table} SET {column} = 0")


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("definitions", "status", "draft active paused archived"),
        ("versions", "status", "draft published superseded"),
        ("versions", "actor_mode", "system starter owner"),
        ("versions", "trigger_type", "manual event schedule webhook workflow"),
        ("waits", "kind", "timer event signal approval instances"),
        ("waits", "status", "pending fired timed_out cancelled"),
    ],
)
def test_states_beside_the_hot_path_take_their_documented_values_only(
    rows: Rows, table: str, column: str, values: str
) -> None:
    step_run = rows.step_run(rows.instance(rows.version(published=False)))
    rows.wait(step_run, kind="event", event_key="filed", match="{}")
    for value in values.split():
        rows.execute(f"UPDATE workflow_{table} SET {column} = '{value}'")
    with pytest.raises(CheckViolation, match=f"ck_workflow_{table}_{column}"):
        rows.execute(f"UPDATE workflow_{table} SET {column} = 'unheard-of'")


def test_an_event_wait_needs_a_key_and_a_match_because_it_is_found_by_them(rows: Rows) -> None:
    step_run = rows.step_run(rows.instance())
    with pytest.raises(CheckViolation, match="ck_workflow_waits_event"):
        rows.wait(step_run, kind="event", event_key="filed")
    rows.wait(step_run, kind="event", event_key="filed", match="{}")
    rows.wait(step_run, kind="timer")


def test_a_soft_deleted_definition_still_holds_its_key(rows: Rows) -> None:
    rows.insert("definitions", key="k", name="K", owner_scope="*", status="draft")
    rows.execute("UPDATE workflow_definitions SET deleted_at = now()")
    with pytest.raises(UniqueViolation, match="wdef_key_unique"):
        rows.insert("definitions", key="k", name="K", owner_scope="*", status="draft")
    rows.insert("definitions", key="k", name="K", owner_scope="user:1", status="draft")


def test_deleting_an_instance_takes_all_that_is_its_own_and_frees_its_children(rows: Rows) -> None:
    instance = rows.instance()
    step_run = rows.step_run(instance)
    rows.wait(step_run, kind="timer")
    rows.insert(
        "escalations",
        instance_id=instance,
        step_run_id=step_run,
        level=1,
        due_at="2026-01-01T00:00:00Z",
        actions="[]",
        status="pending",
    )
    rows.insert("idempotency_keys", scope="effect", key="0" * 64, instance_id=instance)
    rows.insert("inbox", instance_id=instance, kind="start")
    child = rows.instance(
        parent_instance_id=instance, parent_step_run_id=step_run, root_instance_id=instance
    )
    rows.execute(f"DELETE FROM workflow_instances WHERE id = {instance}")
    for table in ("step_runs", "waits", "escalations", "idempotency_keys", "inbox"):
        assert rows.one(f"SELECT count(*) FROM workflow_{table}") == 0
    left = rows.execute(
        "SELECT id, parent_instance_id, parent_step_run_id, root_instance_id "
        "FROM workflow_instances"
    )
    assert left.fetchall() == [(child, None, None, instance)]


def test_what_instances_run_on_cannot_be_deleted(rows: Rows) -> None:
    rows.instance(rows.version(published=False))
    with pytest.raises(ForeignKeyViolation):
        rows.execute("DELETE FROM workflow_versions")
    with pytest.raises((ForeignKeyViolation, RestrictViolation)):
        rows.execute("DELETE FROM workflow_definitions")


def test_an_inbox_takes_an_event_once_per_instance_and_any_number_of_commands(rows: Rows) -> None:
    first, second = rows.instance(), rows.instance()
    rows.insert("inbox", instance_id=first, kind="event", event_id=5)
    rows.insert("inbox", instance_id=second, kind="event", event_id=5)
    rows.insert("inbox", instance_id=first, kind="pause")
    rows.insert("inbox", instance_id=first, kind="pause")
    with pytest.raises(UniqueViolation, match="uq_workflow_inbox_instance_event"):
        rows.insert("inbox", instance_id=first, kind="event", event_id=5)


def test_an_event_keeps_the_transaction_that_wrote_it(rows: Rows) -> None:
    with rows.connection.transaction():
        values = {"key": "filed", "owner_scope": "*", "payload": "{}", "digests": [], "epoch": 1}
        rows.insert("events", **values)
        assert rows.one("SELECT xid = pg_current_xact_id() FROM workflow_events")


def test_values_that_are_not_documented_as_null_must_be_given(rows: Rows) -> None:
    with pytest.raises(NotNullViolation, match="owner_scope"):
        rows.insert("definitions", key="k", name="K", status="draft")


def test_a_pending_event_wait_is_found_through_its_digest(rows: Rows) -> None:
    rows.execute("SET enable_seqscan = off")
    plan = rows.execute(
        "EXPLAIN SELECT id FROM workflow_waits WHERE status = 'pending' AND kind = 'event' AND "
        "md5(event_key || chr(10) || match::text)::uuid = "
        "ANY ('{5d41402a-bc4b-2a76-b971-9d911017c592}'::uuid[])"
    )
    assert "wwait_digest_idx" in str(plan.fetchall())
