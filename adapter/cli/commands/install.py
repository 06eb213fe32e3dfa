"""``almanac install``: publishes the migrations into a host's Alembic tree."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from adapter.cli.opening import AsJson
from adapter.cli.output import cell, print_json, stderr, stdout, table

NAME = "install"


def command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Your Alembic tree, the one with env.py.")
    ],
    after: Annotated[
        str | None,
        typer.Option(metavar="REVISION", help="The revision of yours that they follow."),
    ] = None,
    branch_label: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Begin a branch of their own with this label."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be written; write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Writes Almanac's migrations, dated, into the Alembic tree of your application.

    For those who want one `alembic upgrade` for all tables, instead of `almanac migrate`. They
    follow your head; with several heads, say which one. Again after an update it writes only what
    is new. Table names and key types come from the ALMANAC_* variables when Alembic runs. Your
    scripts are read, not run; no database is touched.

        almanac install alembic
        almanac install alembic --after 4f1d2c --dry-run
        almanac install alembic --branch-label almanac
    """
    from adapter.records.installing import install

    done = install(
        directory,
        on=datetime.now(UTC).date(),
        after=after,
        branch_label=branch_label,
        dry_run=dry_run,
    )
    if as_json:
        listed = [
            {"revision": one.revision, "follows": one.follows, "file": str(one.file)}
            for one in done.migrations
        ]
        told = {"written": listed, "dry_run": dry_run, "heads": done.heads, "next": done.upgrade}
        print_json(told)
        return
    if not done.migrations:
        stdout().print("nothing to do: the tree has all of Almanac's migrations")
        return
    rows = table("revision*", "follows*", "file")
    for one in done.migrations:
        rows.add_row(cell(one.revision), cell(one.follows), cell(str(one.file)))
    stdout().print(rows)
    if dry_run:
        stderr().print("nothing was written")
    else:
        stderr().print(cell(f"next: {done.upgrade}, with the ALMANAC_* variables of the workers"))
