"""Creates the table in which handlers of queued steps tell how far they are.

Safe at any time: it touches nothing that exists, and older writers go on as before. Frozen once
released.
"""

from __future__ import annotations

from alembic import op

from adapter.records.choice import SchemaChoice
from adapter.records.migrating import forward_only, settings_of_this_run

revision = "almanac_0005"
down_revision = "almanac_0004"
branch_labels = None
depends_on = None

_KEYS = {"bigint": "bigint", "uuid": "uuid", "ulid": 'character(26) COLLATE "C"'}

_TABLE = """
CREATE TABLE {step_progress} (
    step_run_id {key} NOT NULL,
    value jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_{step_progress} PRIMARY KEY (step_run_id),
    CONSTRAINT fk_{step_progress}_step_run_id
        FOREIGN KEY (step_run_id) REFERENCES {step_runs} (id) ON DELETE CASCADE
)
"""


def upgrade() -> None:
    """Creates the table."""
    settings = settings_of_this_run()
    tables = settings.tables.model_dump()
    op.execute(_TABLE.format_map({**tables, "key": _KEYS[settings.primary_key_type]}))
    # The table's name is from now on among what the database remembers.
    stamp = SchemaChoice.of(settings).stamp()
    op.execute(f"COMMENT ON TABLE {settings.tables.definitions} IS '{stamp}'")


def downgrade() -> None:
    """Refuses: migrations go forward only."""
    forward_only(revision)
