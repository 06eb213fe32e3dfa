"""``almanac list``: instances by the page, newest first."""

from typing import TYPE_CHECKING, Annotated

import typer

from adapter.cli.columns import MIDDLE, Column, listing, stamp
from adapter.cli.inputs import read_reference, read_since
from adapter.cli.opening import AsJson, open_almanac
from adapter.cli.output import coded, print_json, shorten, stderr, stdout
from adapter.services.views import InstanceSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    parent: Annotated[
        str | None, typer.Option(metavar="ULID", help="Started by this instance.")
    ] = None,
    top: Annotated[bool, typer.Option("--top", help="Started by no other instance.")] = False,
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
        almanac list --top
        almanac list --parent 01JZ8X0V5M6T3C2R9Q4K7W1N8B --status failed
    """
    with open_almanac(ctx) as almanac:
        settings = almanac.settings
        page = almanac.list(
            key=key,
            status=status,
            owner=read_reference(owner, "owner", settings.owner_key_type),
            subject=read_reference(subject, "subject", settings.subject_key_type),
            parent=parent,
            top=top,
            since=read_since(since),
            limit=limit,
            cursor=cursor,
        )
    if as_json:
        print_json(page.as_json())
        return
    console = stdout()
    console.print(listing(_columns(page.items, console.width), page.items, console.width))
    if not page.items:
        stderr().print("no instance fits")
    if page.next is not None:
        stderr().print(f"more: --cursor {page.next}")


def _columns(items: "Sequence[InstanceSummary]", width: int) -> list[Column[InstanceSummary]]:
    columns: list[Column[InstanceSummary]] = [
        Column("ulid", lambda one: one.ulid, whole=True),
        Column("key", lambda one: one.key, least=8),
        Column("v", lambda one: one.version, shown_from=MIDDLE),
        Column("status", lambda one: one.status, whole=True),
        Column("node", lambda one: one.current_node, least=8),
        Column("steps", lambda one: one.steps_count, shown_from=MIDDLE),
        Column("created", lambda one: stamp(one.created_at, width), whole=True),
    ]
    if any(one.failure is not None for one in items):
        columns.append(Column("failure", lambda one: _failure(one, width), least=10))
    return columns


def _failure(one: InstanceSummary, width: int) -> str:
    if one.failure is None:
        return ""
    if width < MIDDLE:
        return one.failure.code
    return shorten(coded(one.failure.code, one.failure.message))
