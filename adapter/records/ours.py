"""The tables of ours beside the documented eight: journal, inbox, events, workers, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CHAR,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import ARRAY

from adapter.records.columns import (
    XID8,
    instant,
    json,
    key_type,
    primary_id,
    string,
    time,
    ulid_type,
)

if TYPE_CHECKING:
    from adapter.records.choice import SchemaChoice


class OwnTables:
    """Builds the six tables of one choice of names and key types into a ``MetaData``."""

    def __init__(self, choice: SchemaChoice, metadata: MetaData) -> None:
        self._choice = choice
        self._names = choice.tables
        self._metadata = metadata

    def journal(self) -> Table:
        """``workflow_journal``: every decision in order; rows are written once."""
        return Table(
            self._names.journal,
            self._metadata,
            self._instance(),
            Column("seq", Integer, nullable=False, autoincrement=False),
            string("kind", 32),
            Column("step_run_id", key_type(self._choice.primary_key_type)),
            string("node_id", 64, nullable=True),
            json("data"),
            Column("writer", CHAR(26), nullable=False),
            Column("interpreter", SmallInteger, nullable=False),
            instant("at"),
            PrimaryKeyConstraint("instance_id", "seq"),
        )

    def inbox(self) -> Table:
        """``workflow_inbox``: commands, signals and deliveries that an instance has to apply."""
        name = self._names.inbox
        return Table(
            name,
            self._metadata,
            primary_id(self._choice.primary_key_type),
            self._instance(),
            string("kind", 16),
            Column("event_id", key_type(self._choice.primary_key_type)),
            json("payload", nullable=True),
            string("sender", 191, nullable=True),
            instant("created_at"),
            time("poked_at"),
            time("applied_at"),
            json("result", nullable=True),
            UniqueConstraint("instance_id", "event_id", name=f"uq_{name}_instance_event"),
            Index(
                f"ix_{name}_unapplied",
                "instance_id",
                "id",
                postgresql_where=sql("applied_at IS NULL"),
            ),
            Index(
                f"ix_{name}_unpoked",
                "id",
                postgresql_where=sql("applied_at IS NULL AND poked_at IS NULL"),
            ),
            Index(
                f"ix_{name}_poked_at",
                "poked_at",
                postgresql_where=sql("applied_at IS NULL AND poked_at IS NOT NULL"),
            ),
        )

    def events(self) -> Table:
        """``workflow_events``: emitted events, found by the digests of their fields."""
        name = self._names.events
        return Table(
            name,
            self._metadata,
            primary_id(self._choice.primary_key_type),
            string("key", 191),
            string("owner_scope", 191),
            json("payload"),
            Column("digests", ARRAY(Uuid()), nullable=False),
            Column("epoch", Integer, nullable=False),
            Column("xid", XID8(), nullable=False, server_default=sql("pg_current_xact_id()")),
            instant("created_at"),
            time("matched_at"),
            time("expires_at"),
            # Without the pending list a look-up never scans what others have just inserted.
            Index(
                f"ix_{name}_digests",
                "digests",
                postgresql_using="gin",
                postgresql_with={"fastupdate": "off"},
            ),
            Index(f"ix_{name}_unmatched", "id", postgresql_where=sql("matched_at IS NULL")),
            Index(f"ix_{name}_key_epoch_xid", "key", "epoch", "xid"),
            Index(f"ix_{name}_expires_at", "expires_at"),
        )

    def event_fields(self) -> Table:
        """``workflow_event_fields``: the sets of fields that published waits match on."""
        name = self._names.event_fields
        return Table(
            name,
            self._metadata,
            Column("event_key", string("event_key", 191).type, nullable=False),
            Column("epoch", Integer, nullable=False, autoincrement=False),
            Column("fields", ARRAY(Text), nullable=False),
            PrimaryKeyConstraint("event_key", "epoch"),
            UniqueConstraint("event_key", "fields", name=f"uq_{name}_event_key_fields"),
        )

    def workers(self) -> Table:
        """``workflow_workers``: a row for every worker process, renewed every second."""
        return Table(
            self._names.workers,
            self._metadata,
            Column("id", ulid_type(), primary_key=True),
            string("name", 191),
            string("task_queue", 191),
            instant("started_at"),
            instant("seen_at"),
            time("stopped_at"),
            Column("details", json("details").type, nullable=False, server_default=sql("'{}'")),
        )

    def step_progress(self) -> Table:
        """``workflow_step_progress``: how far queued steps are, as their handlers tell it."""
        return Table(
            self._names.step_progress,
            self._metadata,
            Column(
                "step_run_id",
                key_type(self._choice.primary_key_type),
                ForeignKey(f"{self._names.step_runs}.id", ondelete="CASCADE"),
                primary_key=True,
                autoincrement=False,
            ),
            Column("value", json("value").type, nullable=False),
            instant("at"),
        )

    def _instance(self) -> Column[Any]:
        return Column(
            "instance_id",
            key_type(self._choice.primary_key_type),
            ForeignKey(f"{self._names.instances}.id", ondelete="CASCADE"),
            nullable=False,
        )
