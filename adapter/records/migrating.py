"""Migrations: run them, and hold the settings against a database that has them.

Nothing here runs by itself: a deployment calls ``upgrade``, every process that opens the database
calls ``verify``. The scripts lie in ``migrations/`` of a checkout and in ``adapter/_migrations``
of an installed wheel; they go forward only.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from adapter.errors import InvalidInput, Misconfigured, NotSupported, Unavailable
from adapter.records.choice import STAMPS_QUERY, SchemaChoice, verify_stamps
from adapter.records.urls import sqlalchemy_url
from adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION_TABLE = "almanac_alembic_version"
OLDEST_SERVER = 140000
LOCK_TIMEOUT = "10s"
CONNECTION = "almanac_connection"
SETTINGS = "almanac_settings"
IN_THE_HOST = "in the host's tree: almanac install DIRECTORY, then alembic upgrade head"
"""How a database is brought forward that a host migrates."""

# "almanac" in bytes: two deployments that migrate at once take turns.
_LOCK = 0x616C6D616E6163


def upgrade(database_url: str, settings: Settings, revision: str = "head") -> list[str]:
    """Brings a database forward to a revision, in one transaction.

    Safe to call again and from several processes at once: they take turns, and whoever finds
    nothing to do does nothing.

    Args:
        database_url: A plain libpq URL; the tables go to its current schema.
        settings: Names and key types; they are fixed by the first revision.
        revision: Where to stop.

    Returns:
        The revisions that were applied, oldest first; empty when there was nothing to do.

    Raises:
        Misconfigured: The settings do not fit the database, a table of that name is not ours, the
            server is too old, or a newer Almanac has migrated the database.
        InvalidInput: No such revision.
        Unavailable: The server cannot be reached, or a lock was not to be had.
    """
    with _connected(database_url) as connection, connection.begin():
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        before = _revision_of(connection)
        _check_before(connection, settings, before)
        config = _config(settings)
        config.attributes[CONNECTION] = connection
        scripts = ScriptDirectory.from_config(config)
        _check_known(scripts, before, revision)
        connection.execute(text("SELECT set_config('lock_timeout', :t, true)"), {"t": LOCK_TIMEOUT})
        command.upgrade(config, revision)
        after = _revision_of(connection)
    if after is None or after == before:
        return []
    return [script.revision for script in scripts.iterate_revisions(after, before or "base")][::-1]


def upgrade_sql(settings: Settings, revision: str = "head") -> str:
    """Returns the SQL that ``upgrade`` would run on an empty database, for a DBA to read or run."""
    written = io.StringIO()
    config = _config(settings)
    config.output_buffer = written
    _check_known(ScriptDirectory.from_config(config), None, revision)
    command.upgrade(config, revision, sql=True)
    return written.getvalue()


def current(database_url: str) -> str | None:
    """Returns the revision that a database is at, None when it was never migrated by ``upgrade``.

    Raises:
        Unavailable: The server cannot be reached.
    """
    with _connected(database_url) as connection:
        return _revision_of(connection)


def head() -> str:
    """Returns the newest revision that this version of Almanac knows."""
    newest = ScriptDirectory(str(scripts_path())).get_current_head()
    assert newest is not None
    return newest


def verify(database_url: str, settings: Settings) -> None:
    """Checks that a database is migrated, and was made with these names and key types.

    A database that is *ahead* passes: while a newer version is rolled out, older processes go on.
    So does one that a host migrates from an Alembic tree of its own, as long as no table is
    missing.

    Raises:
        Misconfigured: It is not migrated or is behind (``not_migrated``), or the settings do not
            fit it.
        Unavailable: The server cannot be reached.
    """
    with _connected(database_url) as connection:
        verify_connected(connection, settings)


def verify_connected(connection: Connection, settings: Settings) -> None:
    """Checks the same of a database that is connected already.

    Raises:
        Misconfigured: As ``verify``.
    """
    stamps = [tuple(row) for row in connection.execute(text(STAMPS_QUERY))]
    if not verify_stamps(stamps, SchemaChoice.of(settings)):
        raise Misconfigured(
            "the database has no Almanac tables yet; run the migrations first",
            code="not_migrated",
        )
    revision = _revision_of(connection)
    missing = sorted(set(settings.tables.model_dump().values()) - _tables_of(connection))
    known = {script.revision for script in ScriptDirectory(str(scripts_path())).walk_revisions()}
    if missing or (revision in known and revision != head()):
        raise Misconfigured(
            f"the database is behind (at {revision}, this version needs {head()}); "
            "run the migrations first",
            code="not_migrated",
            revision=revision,
            head=head(),
            missing=missing,
            **({} if revision else {"remedy": IN_THE_HOST}),
        )


def scripts_path() -> Path:
    """Returns the directory that holds ``env.py`` and ``versions/``.

    Raises:
        Misconfigured: Neither an installed wheel nor a checkout has it.
    """
    package = Path(__file__).resolve().parent.parent
    for place in (package / "_migrations", package.parent / "migrations"):
        if (place / "env.py").is_file():
            return place
    raise Misconfigured("the migration scripts are missing from this installation; reinstall it")


def settings_of_this_run() -> Settings:
    """Returns the settings that the migration being run is to use.

    Those given to ``upgrade``; in a host's own Alembic tree, those of the environment.
    """
    config = op.get_context().config
    chosen = None if config is None else config.attributes.get(SETTINGS)
    return chosen if isinstance(chosen, Settings) else Settings()


def forward_only(revision: str) -> NoReturn:
    """Refuses a downgrade.

    Raises:
        NotSupported: Always, with the code ``downgrade_refused``.
    """
    raise NotSupported(
        f"{revision} cannot be undone: migrations go forward only, because going back would lose "
        "records. Restore a backup, or correct it with a new migration.",
        code="downgrade_refused",
        revision=revision,
    )


def _config(settings: Settings) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts_path()).replace("%", "%%"))
    config.attributes[SETTINGS] = settings
    return config


@contextmanager
def _connected(database_url: str) -> Iterator[Connection]:
    engine = create_engine(
        sqlalchemy_url(database_url), poolclass=NullPool, isolation_level="READ COMMITTED"
    )
    try:
        with engine.connect() as connection:
            yield connection
    except ProgrammingError as error:
        if isinstance(error.orig, InsufficientPrivilege):
            raise Misconfigured(
                f"this database user may not do that: {error.orig}. Migrate as the owner of the "
                "schema."
            ) from error
        raise
    except OperationalError as error:
        # The driver's message names host and port, never the password.
        told = str(error.orig).strip().split("\n")[0]
        if _is_gone(error):
            raise Unavailable(
                f"the database cannot be reached: {told}", code="database_unavailable"
            ) from error
        raise Unavailable(f"the database did not answer as needed: {told}") from error
    finally:
        engine.dispose()


def _is_gone(error: OperationalError) -> bool:
    """Whether there was no server, or it went away or had no room."""
    state = getattr(error.orig, "sqlstate", None)
    return state is None or state[:2] in ("08", "53", "57")


def _revision_of(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def _tables_of(connection: Connection) -> set[str]:
    rows = connection.execute(
        text("SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()")
    )
    return {row[0] for row in rows}


def _check_before(connection: Connection, settings: Settings, before: str | None) -> None:
    """Refuses what would fail half-way, or succeed and be wrong."""
    server = connection.execute(text("SHOW server_version_num")).scalar_one()
    if int(server) < OLDEST_SERVER:
        raise Misconfigured(
            f"PostgreSQL 14 or later is needed; this server is {server}",
            remedy="upgrade the server",
        )
    stamps = [tuple(row) for row in connection.execute(text(STAMPS_QUERY))]
    if verify_stamps(stamps, SchemaChoice.of(settings)):
        if before is None:
            raise Misconfigured(
                f"the tables are there, but {VERSION_TABLE} is not: the host application migrates "
                "them from an Alembic tree of its own, so use that one",
                remedy=IN_THE_HOST,
            )
        return
    names = set(settings.tables.model_dump().values())
    reserved = connection.execute(
        text("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')")
    )
    if clash := sorted(names & {row[0] for row in reserved}):
        raise Misconfigured(f"SQL reserves these words; name the tables otherwise: {clash}")
    if clash := sorted(names & _tables_of(connection)):
        raise Misconfigured(
            f"tables of these names exist already and are not Almanac's: {clash}. Give Almanac's "
            "other names (settings `tables.*`), or a schema of its own.",
            tables=clash,
        )


def _check_known(scripts: ScriptDirectory, before: str | None, revision: str) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    if before is not None and before not in known:
        raise Misconfigured(
            f"the database is at {before}, which this version of Almanac does not know: a newer "
            "one has migrated it. Install that version.",
            remedy="install the newer version of Almanac",
        )
    try:
        scripts.get_revisions(revision)
    except CommandError:
        raise InvalidInput(
            f"there is no migration {revision!r}; known are {', '.join(sorted(known))}"
        ) from None
