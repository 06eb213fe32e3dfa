"""``almanac emit``: emits events that waits and triggers take."""

from typing import Annotated, Any

import typer

from adapter.cli.inputs import read_json, read_lines, read_reference
from adapter.cli.opening import AsJson, Owner, open_almanac
from adapter.cli.output import print_json, stderr, stdout
from adapter.cli.progress import in_batches
from adapter.errors import InvalidInput

NAME = "emit"


def command(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="As waits and triggers name it.")],
    payload: Annotated[
        str | None,
        typer.Option("--payload", "-p", metavar="JSON", help="JSON, @FILE, or - for stdin."),
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Emit one event for each line of JSON; - is stdin."),
    ] = None,
    owner: Owner = None,
    as_json: AsJson = False,
) -> None:
    """Emits an event, or one for each line of a file (all of them or none, in that order).

    The payload is a JSON object; waits match on its fields. An event of an owner reaches that
    owner's instances only.

        almanac emit permits.decided --payload '{"case": "A-17", "approved": true}'
        almanac emit permits.moved --lines moves.jsonl
    """
    if (payload is None) == (lines is None):
        raise InvalidInput("give either --payload or --lines", code="usage")
    with open_almanac(ctx) as almanac:
        owned = read_reference(owner, "owner", almanac.settings.owner_key_type)
        if lines is None:
            ids: list[Any] = [almanac.emit(key, read_json(payload), owner=owned)]
        else:
            events = [(key, value) for _, value in read_lines(lines)]
            with almanac.transaction() as connection:
                ids = in_batches(
                    "Emitting",
                    events,
                    lambda batch: almanac.emit_many(batch, owner=owned, connection=connection),
                )
    if as_json:
        print_json({"ids": ids})
    elif lines is None:
        stdout().print(ids[0])
    else:
        stderr().print(f"{len(ids)} emitted")
