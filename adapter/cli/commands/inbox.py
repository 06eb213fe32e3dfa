"""``almanac inbox``: what an instance was told, and what it made of it."""

from typing import Annotated

import typer

from adapter.cli.columns import FULL, MIDDLE, Column, listing, stamp
from adapter.cli.opening import AsJson, open_almanac
from adapter.cli.output import print_json, stderr, stdout
from adapter.cli.sending import Ulid
from adapter.cli.told import what_was_told
from adapter.services.views import InboxView

NAME = "inbox"


def command(
    ctx: typer.Context,
    ulid: Ulid,
    unapplied: Annotated[
        bool, typer.Option("--open", help="Only what the instance has not got to.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Rows of a page.")] = 50,
    cursor: Annotated[
        str | None, typer.Option(help="Where the page before this one ended.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Lists what an instance was told: its start, commands, signals, events; the newest last.

    Each row is open until the instance gets to it, then done or refused, with the reason; a signal
    that no wait has taken yet is kept. Where there are older rows, the cursor of their page is
    printed on stderr, and is in the JSON as `next`.

        almanac inbox 01JZ8X0V5M6T3C2R9Q4K7W1N8B
        almanac inbox 01JZ8X0V5M6T3C2R9Q4K7W1N8B --open --json
    """
    with open_almanac(ctx) as almanac:
        page = almanac.inbox(ulid, unapplied=unapplied, limit=limit, cursor=cursor)
    if as_json:
        print_json(page.as_json())
        return
    console = stdout()
    console.print(listing(_columns(console.width), page.items, console.width))
    if not page.items:
        stderr().print("nothing is open" if unapplied else "nothing before that")
    if page.next is not None:
        stderr().print(f"older: --cursor {page.next}")


def _columns(width: int) -> list[Column[InboxView]]:
    return [
        Column("id", lambda row: str(row.id), whole=True),
        Column("kind", lambda row: row.kind, whole=True),
        Column("what", what_was_told, least=12),
        Column("sender", lambda row: row.sender, least=8, shown_from=MIDDLE),
        Column("created", lambda row: stamp(row.created_at, width), whole=True),
        Column("applied", lambda row: stamp(row.applied_at, width), whole=True, shown_from=FULL),
        Column("status", lambda row: row.status, whole=True),
        Column("reason", lambda row: "kept" if row.kept else row.reason, least=8),
    ]
