"""``almanac emit``: emits events that waits and triggers take."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapter.cli.failures import usage
from adapter.cli.inputs import read_json, read_lines, read_reference
from adapter.cli.opening import AsJson, Owner, open_almanac
from adapter.cli.output import cell, print_json, stderr, stdout
from adapter.cli.progress import in_batches
from adapter.errors import AlmanacError

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac
    from adapter.services.listening import Listeners
    from adapter.services.morphs import Ref

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

    The payload is a JSON object, '{}' for an event without data; waits match on its fields. An
    event of an owner reaches that owner's instances only. It says how many waits and triggers of
    published graphs name the key, and warns when none does.

        almanac emit permits.decided --payload '{"case": "A-17", "approved": true}'
        almanac emit permits.moved --lines moves.jsonl
    """
    if (payload is None) == (lines is None):
        raise usage("give either --payload ('{}' for an event without data) or --lines")
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
        heard = _heard(almanac, key, owned)
    warning = None if heard is None else _warning(heard)
    if as_json:
        told = None if heard is None else heard.as_json()
        print_json({"ids": ids, "listeners": told, "warning": warning})
        return
    if lines is None:
        stdout().print(ids[0])
    else:
        stderr().print(f"{len(ids)} emitted")
    if warning is not None:
        stderr().print(cell(f"warning: {warning}"), style="yellow", soft_wrap=True)
    elif heard is not None:
        stderr().print(cell(_known(heard)), soft_wrap=True)


def _heard(almanac: "Almanac", key: str, owner: "Ref | None") -> "Listeners | None":
    """Who listens; None where this user of the database may emit, but not read what is published.

    The event is there by now, so that nothing of this may fail the command.
    """
    try:
        return almanac.listeners(key, owner=owner)
    except AlmanacError:
        return None


def _warning(heard: "Listeners") -> str | None:
    if not heard.nobody:
        return None
    days = heard.kept_for / 86_400
    return (
        f"nobody listens to {heard.key!r} yet; kept for {days:g} {'day' if days == 1 else 'days'}"
    )


def _known(heard: "Listeners") -> str:
    if not heard.waits and not heard.triggers:
        return "only versions that were replaced, or other owners' graphs, name this key"
    waits = f"{heard.waits} {'wait' if heard.waits == 1 else 'waits'}"
    triggers = f"{heard.triggers} {'trigger' if heard.triggers == 1 else 'triggers'}"
    return f"named by {waits} and {triggers} of published graphs"
