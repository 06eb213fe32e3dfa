"""``almanac migrate``: brings the database forward."""

from typing import Annotated

import typer

from adapter.cli.opening import AsJson, open_almanac, settings_of
from adapter.cli.output import print_json, stderr, stdout

NAME = "migrate"


def command(
    ctx: typer.Context,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL for an empty database; change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Creates Almanac's tables, or brings them to the newest revision.

    Safe to run again and from several deployments at once. Table names and key types come from
    the settings and are fixed by the first run.

        almanac migrate
        almanac migrate --sql > almanac.sql
    """
    if sql:
        from adapter.records.migrating import upgrade_sql

        stdout().file.write(upgrade_sql(settings_of(ctx)))
        return
    with open_almanac(ctx) as almanac, stderr().status("Migrating"):
        applied = almanac.migrate()
    if as_json:
        print_json({"applied": applied})
        return
    for revision in applied:
        stdout().print(f"applied {revision}")
    if not applied:
        stdout().print("nothing to do: the database is at the newest revision")
