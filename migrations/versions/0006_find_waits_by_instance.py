"""Lets an instance that ends find the waits that name it.

Safe at any time: older writers go on as before. While the index is made, appends that open or
settle a wait stand still for the time of one pass over the waits. Frozen once released.
"""

from __future__ import annotations

from alembic import op

from adapter.records.migrating import forward_only, settings_of_this_run

revision = "almanac_0006"
down_revision = "almanac_0005"
branch_labels = None
depends_on = None

# Without the pending list a look-up never scans what others have just inserted.
_INDEX = (
    "CREATE INDEX wwait_instances_idx ON {waits} USING gin (match jsonb_path_ops) "
    "WITH (fastupdate = 'off') WHERE kind = 'instances' AND claimed_at IS NULL"
)


def upgrade() -> None:
    """Creates the index."""
    op.execute(_INDEX.format_map(settings_of_this_run().tables.model_dump()))


def downgrade() -> None:
    """Refuses: migrations go forward only."""
    forward_only(revision)
