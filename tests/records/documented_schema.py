"""The documented schema, written down from its specification and not from the code.

Types are in its own words: ``key`` (primary_key_type), ``owner``/``subject``/``user`` (the morph
key settings), ``string(n)``, ``char(n)``, ``json``, ``datetime``, ``unsigned``; ``null`` allows
NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STAMPS = {"created_at": "datetime", "updated_at": "datetime"}
SOFT = {**STAMPS, "deleted_at": "datetime null"}


@dataclass(frozen=True)
class Documented:
    columns: dict[str, str]
    references: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Column -> (table, ON DELETE)."""
    unique: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Documented names of unique constraints."""
    unique_columns: tuple[str, ...] = ()
    """Columns that are unique by themselves, under a name that derives from the table's."""
    indexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Documented names of indexes."""
    indexed: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    """Columns that begin at 0."""


def morph(name: str, kind: str) -> dict[str, str]:
    return {f"{name}_type": "string(191) null", f"{name}_id": f"{kind} null"}


DOCUMENTED = {
    "definitions": Documented(
        columns={
            "id": "key",
            "key": "string(100)",
            "name": "string(200)",
            "description": "text null",
            **morph("owner", "owner"),
            "owner_scope": "string(191)",
            "subject_key": "string(100) null",
            "status": "string(16)",
            "current_version_id": "key null",
            "webhook_id": "string(26) null",
            **SOFT,
        },
        unique={"wdef_key_unique": ("owner_scope", "key")},
        unique_columns=("webhook_id",),
        indexed=("current_version_id",),
    ),
    "versions": Documented(
        columns={
            "id": "key",
            "definition_id": "key",
            "number": "unsigned int",
            "status": "string(16)",
            "schema_version": "string(32)",
            "graph": "json",
            "trigger": "json",
            "settings": "json",
            "trigger_type": "string(16)",
            "trigger_key": "string(191) null",
            "actor_mode": "string(16)",
            "checksum": "char(64)",
            "review_flags": "json null",
            "published_at": "datetime null",
            **morph("publisher", "user"),
            "schedule_cursor_at": "datetime null",
            **STAMPS,
        },
        references={"definition_id": ("definitions", "RESTRICT")},
        unique={"wver_number_unique": ("definition_id", "number")},
        indexes={"wver_trigger_idx": ("trigger_type", "trigger_key", "status")},
    ),
    "instances": Documented(
        columns={
            "id": "key",
            "ulid": "char(26)",
            "definition_id": "key",
            "version_id": "key",
            **morph("owner", "owner"),
            "subject_key": "string(100) null",
            **morph("subject", "subject"),
            "trigger_type": "string(16)",
            "trigger_key": "string(191) null",
            "trigger_payload": "json null",
            "idempotency_digest": "char(64) null",
            "status": "string(16)",
            "current_node_id": "string(64) null",
            "steps_count": "unsigned int",
            "depth": "unsigned smallint",
            "parent_instance_id": "key null",
            "parent_step_run_id": "key null",
            "root_instance_id": "key null",
            "actor_mode": "string(16)",
            **morph("starter", "user"),
            "failure_code": "string(64) null",
            "failure_message": "text null",
            "failed_node_id": "string(64) null",
            "started_at": "datetime null",
            "ended_at": "datetime null",
            "lock_version": "unsigned int",
            **STAMPS,
        },
        references={
            "definition_id": ("definitions", "NO ACTION"),
            "version_id": ("versions", "NO ACTION"),
            "parent_instance_id": ("instances", "SET NULL"),
            "parent_step_run_id": ("step_runs", "SET NULL"),
        },
        unique_columns=("ulid",),
        indexes={
            "winst_overlay_idx": ("version_id", "status", "current_node_id"),
            "winst_rate_idx": ("definition_id", "created_at"),
            "winst_status_idx": ("status", "updated_at"),
        },
        indexed=("idempotency_digest",),
        defaults=("steps_count", "depth", "lock_version"),
    ),
    "step_runs": Documented(
        columns={
            "id": "key",
            "instance_id": "key",
            "node_id": "string(64)",
            "node_type": "string(64)",
            "visit": "unsigned int",
            "attempt": "unsigned smallint",
            "status": "string(16)",
            "idempotency_key": "string(100)",
            "input": "json null",
            "output": "json null",
            "resume_signal": "json null",
            "outcome": "string(32) null",
            "error_code": "string(64) null",
            "error_message": "text null",
            "error_retryable": "bool null",
            "claim_token": "string(26) null",
            "lease_until": "datetime null",
            "scheduled_for": "datetime null",
            "dispatched_at": "datetime null",
            "started_at": "datetime null",
            "finished_at": "datetime null",
            "probe_pushed_at": "datetime null",
            **STAMPS,
        },
        references={"instance_id": ("instances", "CASCADE")},
        unique={"wstep_attempt_unique": ("instance_id", "node_id", "visit", "attempt")},
        indexes={"wstep_lease_idx": ("status", "lease_until")},
    ),
    "waits": Documented(
        columns={
            "id": "key",
            "instance_id": "key",
            "step_run_id": "key",
            "kind": "string(16)",
            "due_at": "datetime null",
            "event_key": "string(191) null",
            "match": "json null",
            "condition": "json null",
            "payload": "json null",
            "outcome": "string(32) null",
            "status": "string(16)",
            "claim_token": "string(26) null",
            "claimed_at": "datetime null",
            "fired_at": "datetime null",
            **STAMPS,
        },
        references={
            "instance_id": ("instances", "CASCADE"),
            "step_run_id": ("step_runs", "CASCADE"),
        },
        indexes={
            "wwait_due_idx": ("status", "due_at"),
            "wwait_event_idx": ("status", "event_key"),
        },
    ),
    "escalations": Documented(
        columns={
            "id": "key",
            "instance_id": "key",
            "step_run_id": "key",
            "level": "unsigned smallint",
            "due_at": "datetime",
            "actions": "json",
            "status": "string(16)",
            "attempts": "unsigned smallint",
            "claim_token": "string(26) null",
            "claimed_at": "datetime null",
            "fired_at": "datetime null",
            "cancelled_at": "datetime null",
            "error_code": "string(64) null",
            "error_message": "text null",
            **STAMPS,
        },
        references={
            "instance_id": ("instances", "CASCADE"),
            "step_run_id": ("step_runs", "CASCADE"),
        },
        indexes={"wesc_due_idx": ("status", "due_at")},
    ),
    "idempotency_keys": Documented(
        columns={
            "id": "key",
            "scope": "string(16)",
            "key": "char(64)",
            "definition_id": "key null",
            "instance_id": "key null",
            "result": "json null",
            "expires_at": "datetime null",
            "created_at": "datetime",
        },
        references={
            "definition_id": ("definitions", "SET NULL"),
            "instance_id": ("instances", "CASCADE"),
        },
        unique={"widem_unique": ("scope", "key")},
        indexed=("expires_at",),
    ),
    "dry_runs": Documented(
        columns={
            "id": "key",
            "definition_id": "key",
            "version_id": "key null",
            **morph("owner", "owner"),
            **morph("subject", "subject"),
            **morph("requester", "user"),
            "input": "json",
            "result": "json",
            **SOFT,
        },
        references={
            "definition_id": ("definitions", "CASCADE"),
            "version_id": ("versions", "SET NULL"),
        },
    ),
}
"""The eight tables, by their names in the settings."""
