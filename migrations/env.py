"""How Alembic reaches the database.

Through the connection that ``migrating.upgrade`` hands over or, from Alembic's own command line,
through ``ALMANAC_DATABASE_URL``.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, NullPool, create_engine

from adapter.errors import Misconfigured
from adapter.records.columns import XID8
from adapter.records.migrating import CONNECTION, SETTINGS, VERSION_TABLE
from adapter.records.tables import build_tables
from adapter.records.urls import sqlalchemy_url
from adapter.settings import Settings


def _run(connection: Connection | None, settings: Settings) -> None:
    metadata = build_tables(settings).metadata
    options = {
        "target_metadata": metadata,
        "version_table": VERSION_TABLE,
        "include_name": lambda name, kind, _: kind != "table" or name in metadata.tables,
    }
    if connection is None:
        context.configure(
            dialect_name="postgresql",
            # Any other style would double each percent sign in the SQL that people read.
            dialect_opts={"paramstyle": "named"},
            as_sql=True,
            literal_binds=True,
            **options,
        )
    else:
        # On this connection only: so that autogenerate can read transaction ids.
        known = connection.dialect.ischema_names
        connection.dialect.ischema_names = {**known, "xid8": XID8}
        context.configure(connection=connection, **options)
    with context.begin_transaction():
        context.run_migrations()


def _main() -> None:
    attributes = context.config.attributes
    settings = attributes.get(SETTINGS) or Settings()
    if context.is_offline_mode():
        _run(None, settings)
    elif (given := attributes.get(CONNECTION)) is not None:
        _run(given, settings)
    elif settings.database_url is None:
        raise Misconfigured("ALMANAC_DATABASE_URL is not set")
    else:
        engine = create_engine(sqlalchemy_url(settings.database_url), poolclass=NullPool)
        with engine.connect() as connection:
            _run(connection, settings)


_main()
