"""The eight documented tables: columns, keys and index names as docs/records.md lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CHAR,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    MetaData,
    Table,
    UniqueConstraint,
)
from sqlalchemy import text as sql

from adapter.records.columns import (
    json,
    key_type,
    long_text,
    morph,
    one_of,
    primary_id,
    string,
    time,
    timestamps,
    ulid_type,
    unsigned,
)

if TYPE_CHECKING:
    from adapter.records.choice import SchemaChoice

ACTOR_MODES = ("system", "starter", "owner")
DEFINITION_STATUSES = ("draft", "active", "paused", "archived")
ESCALATION_STATUSES = ("pending", "claimed", "fired", "failed", "cancelled")
IDEMPOTENCY_SCOPES = ("start", "effect")
INSTANCE_STATUSES = (
    "pending",
    "running",
    "waiting",
    "paused",
    "completed",
    "failed",
    "cancelled",
)
STEP_RUN_STATUSES = (
    "scheduled",
    "running",
    "waiting",
    "retrying",
    "succeeded",
    "failed",
    "skipped",
    "cancelled",
    "lost",
)
TRIGGER_TYPES = ("manual", "event", "schedule", "webhook", "workflow")
VERSION_STATUSES = ("draft", "published", "superseded")
WAIT_KINDS = ("timer", "event", "signal", "approval", "instances")
WAIT_STATUSES = ("pending", "fired", "timed_out", "cancelled")

# Written as PostgreSQL gives it back, so that comparing the two finds no difference.
EVENT_WAIT_DIGEST = "md5((event_key::text || chr(10)) || match::text)::uuid"
PENDING_EVENT_WAIT = "status = 'pending' AND kind = 'event'"
# It names no column of another index, so that no plan can take that one and read all waits.
OPEN_INSTANCES_WAIT = "kind = 'instances' AND claimed_at IS NULL"


class DocumentedTables:
    """Builds the eight tables of one choice of names and key types into a ``MetaData``."""

    def __init__(self, choice: SchemaChoice, metadata: MetaData) -> None:
        self._choice = choice
        self._names = choice.tables
        self._metadata = metadata

    def definitions(self) -> Table:
        """``workflow_definitions``; its comment keeps the choice of names and key types."""
        return self._table(
            self._names.definitions,
            string("key", 100),
            string("name", 200),
            long_text("description"),
            *morph("owner", self._choice.owner_key_type),
            string("owner_scope", 191),
            string("subject_key", 100, nullable=True),
            *one_of("status", 16, DEFINITION_STATUSES),
            self._key("current_version_id", nullable=True, index=True),
            string("webhook_id", 26, nullable=True, unique=True),
            *timestamps(soft_deletes=True),
            UniqueConstraint("owner_scope", "key", name="wdef_key_unique"),
            comment=self._choice.stamp(),
        )

    def versions(self) -> Table:
        """``workflow_versions``; a trigger freezes what is published."""
        return self._table(
            self._names.versions,
            self._key("definition_id", self._names.definitions, "RESTRICT"),
            *unsigned("number"),
            *one_of("status", 16, VERSION_STATUSES),
            string("schema_version", 32),
            json("graph"),
            json("trigger"),
            json("settings"),
            *one_of("trigger_type", 16, TRIGGER_TYPES),
            string("trigger_key", 191, nullable=True),
            *one_of("actor_mode", 16, ACTOR_MODES),
            Column("checksum", CHAR(64), nullable=False),
            json("review_flags", nullable=True),
            time("published_at"),
            *morph("publisher", self._choice.key_type),
            time("schedule_cursor_at"),
            *timestamps(),
            UniqueConstraint("definition_id", "number", name="wver_number_unique"),
            Index("wver_trigger_idx", "trigger_type", "trigger_key", "status"),
        )

    def instances(self) -> Table:
        """``workflow_instances``; a trigger keeps each on its version.

        Its states have no CHECK, nor have those of the step runs: PostgreSQL prepares each CHECK
        anew in every append.
        """
        name = self._names.instances
        return self._table(
            name,
            Column("ulid", ulid_type(), nullable=False, unique=True),
            self._key("definition_id", self._names.definitions),
            self._key("version_id", self._names.versions),
            *morph("owner", self._choice.owner_key_type),
            string("subject_key", 100, nullable=True),
            *morph("subject", self._choice.subject_key_type),
            string("trigger_type", 16),
            string("trigger_key", 191, nullable=True),
            json("trigger_payload", nullable=True),
            Column("idempotency_digest", CHAR(64), index=True),
            string("status", 16),
            string("current_node_id", 64, nullable=True),
            *unsigned("steps_count", default=0),
            *unsigned("depth", small=True, default=0),
            self._key("parent_instance_id", name, "SET NULL", nullable=True),
            self._key(
                "parent_step_run_id",
                self._names.step_runs,
                "SET NULL",
                nullable=True,
                circular=True,
            ),
            self._key("root_instance_id", nullable=True),
            string("actor_mode", 16),
            *morph("starter", self._choice.key_type),
            string("failure_code", 64, nullable=True),
            long_text("failure_message"),
            string("failed_node_id", 64, nullable=True),
            time("started_at"),
            time("ended_at"),
            *unsigned("lock_version", default=0),
            *timestamps(),
            Index("winst_overlay_idx", "version_id", "status", "current_node_id"),
            Index("winst_rate_idx", "definition_id", "created_at"),
            Index("winst_status_idx", "status", "updated_at"),
            # Partial: most instances have no parent or no subject, and every append pays for
            # every index entry of the row that it moves.
            self._partial(name, "parent_instance_id"),
            self._partial(name, "parent_step_run_id"),
            Index(
                f"ix_{name}_subject",
                "subject_type",
                "subject_id",
                postgresql_where=sql("subject_id IS NOT NULL"),
            ),
        )

    def step_runs(self) -> Table:
        """``workflow_step_runs``: a row for every attempt."""
        return self._table(
            self._names.step_runs,
            self._key("instance_id", self._names.instances, "CASCADE"),
            string("node_id", 64),
            string("node_type", 64),
            *unsigned("visit"),
            *unsigned("attempt", small=True),
            string("status", 16),
            string("idempotency_key", 100),
            json("input", nullable=True),
            json("output", nullable=True),
            json("resume_signal", nullable=True),
            string("outcome", 32, nullable=True),
            string("error_code", 64, nullable=True),
            long_text("error_message"),
            Column("error_retryable", Boolean),
            string("claim_token", 26, nullable=True),
            time("lease_until"),
            time("scheduled_for"),
            time("dispatched_at"),
            time("started_at"),
            time("finished_at"),
            time("probe_pushed_at"),
            *timestamps(),
            UniqueConstraint(
                "instance_id", "node_id", "visit", "attempt", name="wstep_attempt_unique"
            ),
            Index("wstep_lease_idx", "status", "lease_until"),
        )

    def waits(self) -> Table:
        """``workflow_waits``: what an instance waits for."""
        return self._table(
            self._names.waits,
            self._key("instance_id", self._names.instances, "CASCADE", index=True),
            self._key("step_run_id", self._names.step_runs, "CASCADE", index=True),
            *one_of("kind", 16, WAIT_KINDS),
            time("due_at"),
            string("event_key", 191, nullable=True),
            json("match", nullable=True),
            json("condition", nullable=True),
            json("payload", nullable=True),
            string("outcome", 32, nullable=True),
            *one_of("status", 16, WAIT_STATUSES),
            string("claim_token", 26, nullable=True),
            time("claimed_at"),
            time("fired_at"),
            *timestamps(),
            # A digest of NULL would never be found: the wait would never fire.
            CheckConstraint(
                "kind <> 'event' OR (event_key IS NOT NULL AND match IS NOT NULL)", name="event"
            ),
            Index("wwait_due_idx", "status", "due_at"),
            Index("wwait_event_idx", "status", "event_key"),
            Index(
                "wwait_digest_idx",
                sql(f"({EVENT_WAIT_DIGEST})"),
                postgresql_where=sql(PENDING_EVENT_WAIT),
            ),
            Index(
                "wwait_instances_idx",
                "match",
                postgresql_using="gin",
                postgresql_ops={"match": "jsonb_path_ops"},
                postgresql_with={"fastupdate": "off"},
                postgresql_where=sql(OPEN_INSTANCES_WAIT),
            ),
        )

    def escalations(self) -> Table:
        """``workflow_escalations``: what is to happen when a step takes too long."""
        return self._table(
            self._names.escalations,
            self._key("instance_id", self._names.instances, "CASCADE", index=True),
            self._key("step_run_id", self._names.step_runs, "CASCADE", index=True),
            *unsigned("level", small=True),
            time("due_at", nullable=False),
            json("actions"),
            *one_of("status", 16, ESCALATION_STATUSES),
            *unsigned("attempts", small=True, default=0),
            string("claim_token", 26, nullable=True),
            time("claimed_at"),
            time("fired_at"),
            time("cancelled_at"),
            string("error_code", 64, nullable=True),
            long_text("error_message"),
            *timestamps(),
            Index("wesc_due_idx", "status", "due_at"),
        )

    def idempotency_keys(self) -> Table:
        """``workflow_idempotency_keys``: digests of start keys and of effects done once."""
        name = self._names.idempotency_keys
        return self._table(
            name,
            *one_of("scope", 16, IDEMPOTENCY_SCOPES),
            Column("key", CHAR(64), nullable=False),
            self._key("definition_id", self._names.definitions, "SET NULL", nullable=True),
            self._key("instance_id", self._names.instances, "CASCADE", nullable=True, index=True),
            json("result", nullable=True),
            Column("expires_at", time("expires_at").type, index=True),
            timestamps()[0],
            UniqueConstraint("scope", "key", name="widem_unique"),
            self._partial(name, "definition_id"),
        )

    def dry_runs(self) -> Table:
        """``workflow_dry_runs``: simulated runs and their results."""
        return self._table(
            self._names.dry_runs,
            self._key("definition_id", self._names.definitions, "CASCADE", index=True),
            self._key("version_id", self._names.versions, "SET NULL", nullable=True, index=True),
            *morph("owner", self._choice.owner_key_type),
            *morph("subject", self._choice.subject_key_type),
            *morph("requester", self._choice.key_type),
            json("input"),
            json("result"),
            *timestamps(soft_deletes=True),
        )

    def _table(self, name: str, *parts: Any, comment: str | None = None) -> Table:
        identity = primary_id(self._choice.primary_key_type)
        return Table(name, self._metadata, identity, *parts, comment=comment)

    def _key(
        self,
        name: str,
        target: str | None = None,
        on_delete: str | None = None,
        *,
        nullable: bool = False,
        index: bool = False,
        circular: bool = False,
    ) -> Column[Any]:
        """Returns an internal ``*_id`` column, with a foreign key when a target is named."""
        parts = []
        if target is not None:
            parts.append(ForeignKey(f"{target}.id", ondelete=on_delete, use_alter=circular))
        return Column(
            name,
            key_type(self._choice.primary_key_type),
            *parts,
            nullable=nullable,
            index=index,
        )

    @staticmethod
    def _partial(table: str, column: str) -> Index:
        """Returns an index for a foreign key that most rows leave empty."""
        return Index(f"ix_{table}_{column}", column, postgresql_where=sql(f"{column} IS NOT NULL"))
