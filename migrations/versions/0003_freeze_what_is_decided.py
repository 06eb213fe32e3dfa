"""Lets the database itself refuse changes of published versions and of the past.

Safe at any time: the triggers fire only on statements that the application never issues, so
writers that are older than this migration go on as before. Frozen once released.
"""

from __future__ import annotations

from alembic import op

from adapter.records.migrating import forward_only, settings_of_this_run

revision = "almanac_0003"
down_revision = "almanac_0002"
branch_labels = None
depends_on = None

_FUNCTIONS = (
    """
CREATE FUNCTION almanac_freeze_version() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed text;
BEGIN
    SELECT string_agg(new_one.key, ', ' ORDER BY new_one.key) INTO changed
    FROM jsonb_each(to_jsonb(NEW)) AS new_one
    JOIN jsonb_each(to_jsonb(OLD)) AS old_one ON old_one.key = new_one.key
    WHERE new_one.value IS DISTINCT FROM old_one.value
      AND new_one.key IN (
        'id', 'definition_id', 'number', 'schema_version', 'graph', 'trigger', 'settings',
        'trigger_type', 'trigger_key', 'actor_mode', 'checksum', 'published_at',
        'publisher_type', 'publisher_id');
    IF changed IS NULL THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'restrict_violation',
        MESSAGE = 'version ' || OLD.number::text || ' of definition ' || OLD.definition_id::text
            || ' is published, so these may not change: ' || changed,
        HINT = 'Publish a new version instead.',
        TABLE = TG_TABLE_NAME,
        SCHEMA = TG_TABLE_SCHEMA;
END
$$
""",
    """
CREATE FUNCTION almanac_keep_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('almanac.allow_version_delete', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'restrict_violation',
        MESSAGE = 'version ' || OLD.number::text || ' of definition ' || OLD.definition_id::text
            || ' is published and may not be deleted',
        HINT = 'Archive the definition instead. To delete it for good, run '
            || 'SET LOCAL almanac.allow_version_delete = ''on'' in the same transaction.',
        TABLE = TG_TABLE_NAME,
        SCHEMA = TG_TABLE_SCHEMA;
END
$$
""",
    """
CREATE FUNCTION almanac_keep_instance_on_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'restrict_violation',
        MESSAGE = 'instance ' || OLD.ulid || ' stays on the version that it was started with',
        HINT = 'Cancel it and start a new instance on the other version.',
        TABLE = TG_TABLE_NAME,
        SCHEMA = TG_TABLE_SCHEMA;
END
$$
""",
    """
CREATE FUNCTION almanac_keep_journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'restrict_violation',
        MESSAGE = 'journal entry ' || OLD.seq::text || ' of instance ' || OLD.instance_id::text
            || ' may not change: the journal is written once',
        HINT = 'Append an entry instead; the journal goes with its instance.',
        TABLE = TG_TABLE_NAME,
        SCHEMA = TG_TABLE_SCHEMA;
END
$$
""",
)

_TRIGGERS = (
    # Named by column, so that moving the schedule cursor never compares graphs.
    """
CREATE TRIGGER almanac_freeze_version
BEFORE UPDATE OF id, definition_id, number, schema_version, graph, trigger, settings,
    trigger_type, trigger_key, actor_mode, checksum, published_at, publisher_type, publisher_id
ON {versions} FOR EACH ROW WHEN (OLD.published_at IS NOT NULL)
EXECUTE FUNCTION almanac_freeze_version()
""",
    """
CREATE TRIGGER almanac_keep_version
BEFORE DELETE ON {versions} FOR EACH ROW WHEN (OLD.published_at IS NOT NULL)
EXECUTE FUNCTION almanac_keep_version()
""",
    # AFTER, because a BEFORE trigger locks the row once more in every append.
    """
CREATE TRIGGER almanac_keep_instance_on_version
AFTER UPDATE OF definition_id, version_id ON {instances} FOR EACH ROW
WHEN (OLD.definition_id IS DISTINCT FROM NEW.definition_id
    OR OLD.version_id IS DISTINCT FROM NEW.version_id)
EXECUTE FUNCTION almanac_keep_instance_on_version()
""",
    """
CREATE TRIGGER almanac_keep_journal
BEFORE UPDATE ON {journal} FOR EACH ROW
EXECUTE FUNCTION almanac_keep_journal()
""",
)


def upgrade() -> None:
    """Creates the functions and the triggers."""
    tables = settings_of_this_run().tables.model_dump()
    for statement in _FUNCTIONS:
        op.execute(statement)
    for statement in _TRIGGERS:
        op.execute(statement.format_map(tables))


def downgrade() -> None:
    """Refuses: migrations go forward only."""
    forward_only(revision)
