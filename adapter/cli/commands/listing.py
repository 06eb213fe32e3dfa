"""``almanac list``: instances by the page, newest first."""

from typing import Annotated

import typer

from adapter.cli.inputs import read_reference, read_since
from adapter.cli.opening import AsJson, open_almanac
from adapter.cli.output import cell, print_json, shorten, stderr, stdout, table
from adapter.services.views import InstanceSummary

NAME = "list"


def command(
    ctx: typer.Context,
    key: Annotated[str | None, typer.Option(help="Of the definition with this key.")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            help="pending, running, waiting, paused, completed, failed or cancelled.",
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="TYPE:ID", help="Of this owner.")] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="TYPE:ID", help="About this subject.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Created since: 2026-01-31T08:00:00Z, or PT1H ago."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Items of a page.")] = 50,
    cursor: Annotated[
        str | None, typer.Option(help="Where the page before this one ended.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Lists instances, newest first.

    All filters given have to fit. Where there is more, the cursor of the next page is printed on
    stderr, and is in the JSON as `next`.

        almanac list
        almanac list --key permits --status failed --since PT24H
        almanac list --subject permit:17 --json
    """
    with open_almanac(ctx) as almanac:
        settings = almanac.settings
        page = almanac.list(
            key=key,
            status=status,
            owner=read_reference(owner, "owner", settings.owner_key_type),
            subject=read_reference(subject, "subject", settings.subject_key_type),
            since=read_since(since),
            limit=limit,
            cursor=cursor,
        )
    if as_json:
        print_json(page.as_json())
        return
    listed = table("ulid*", "key", "v", "status*", "node", "steps", "created*", "failure")
    for one in page.items:
        listed.add_row(*(cell(value) for value in _row(one)))
    stdout().print(listed)
    if not page.items:
        stderr().print("no instance fits")
    if page.next is not None:
        stderr().print(f"more: --cursor {page.next}")


def _row(one: InstanceSummary) -> tuple[object, ...]:
    failure = "" if one.failure is None else f"{one.failure.code}: {one.failure.message or ''}"
    return (
        one.ulid,
        one.key,
        one.version,
        one.status,
        one.current_node,
        one.steps_count,
        one.created_at,
        shorten(failure),
    )
