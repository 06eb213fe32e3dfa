"""``almanac inbox``: what an instance was told, and what it made of it."""

from typing import Annotated

import typer

from adapter.cli.opening import AsJson, open_almanac
from adapter.cli.output import cell, print_json, stderr, stdout, table
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

    Each row is open until the instance gets to it, then done or refused, with the reason. Where
    there are older rows, the cursor of their page is printed on stderr, and is in the JSON as
    `next`.

        almanac inbox 01JZ8X0V5M6T3C2R9Q4K7W1N8B
        almanac inbox 01JZ8X0V5M6T3C2R9Q4K7W1N8B --open --json
    """
    with open_almanac(ctx) as almanac:
        page = almanac.inbox(ulid, unapplied=unapplied, limit=limit, cursor=cursor)
    if as_json:
        print_json(page.as_json())
        return
    listed = table("id*", "kind", "what", "sender", "created*", "applied*", "status*", "reason*")
    for row in page.items:
        listed.add_row(*(cell(value) for value in _row(row)))
    stdout().print(listed)
    if not page.items:
        stderr().print("nothing is open" if unapplied else "nothing before that")
    if page.next is not None:
        stderr().print(f"older: --cursor {page.next}")


def _row(row: InboxView) -> tuple[object, ...]:
    return (
        str(row.id),
        row.kind,
        what_was_told(row),
        row.sender,
        row.created_at,
        row.applied_at,
        row.status,
        row.reason,
    )
