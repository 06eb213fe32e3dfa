"""Takes the CHECKs of the states off the two tables that every step writes to.

PostgreSQL parses and prepares every CHECK of a table anew in each statement that writes to it:
these four took an eighth of an append's processor time. The append is the only writer of these
rows, and its states come from the interpreter; the CHECKs of the other tables stay.

Safe at any time: it holds a lock for an instant, and older writers go on as before. Frozen once
released.
"""

from __future__ import annotations

from alembic import op

from adapter.records.migrating import forward_only, settings_of_this_run

revision = "almanac_0004"
down_revision = "almanac_0003"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE {instances} DROP CONSTRAINT ck_{instances}_status, "
    "DROP CONSTRAINT ck_{instances}_trigger_type, DROP CONSTRAINT ck_{instances}_actor_mode",
    "ALTER TABLE {step_runs} DROP CONSTRAINT ck_{step_runs}_status",
)


def upgrade() -> None:
    """Drops the four CHECKs."""
    tables = settings_of_this_run().tables.model_dump()
    for statement in _STATEMENTS:
        op.execute(statement.format_map(tables))


def downgrade() -> None:
    """Refuses: migrations go forward only."""
    forward_only(revision)
