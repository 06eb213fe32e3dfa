"""${message}

Safe BEFORE the new code (expand) or only AFTER it (contract): say which, and why.
Frozen once released.
"""

from __future__ import annotations

from alembic import op

from adapter.records.migrating import forward_only, settings_of_this_run

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """Say what it does."""
    tables = settings_of_this_run().tables.model_dump()
    ${upgrades if upgrades else 'op.execute("".format_map(tables))'}


def downgrade() -> None:
    """Refuses: migrations go forward only."""
    forward_only(revision)
