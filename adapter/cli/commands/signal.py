"""``almanac signal``: sends a signal to an instance."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapter.cli.inputs import read_json
from adapter.cli.opening import AsJson
from adapter.cli.sending import Sender, Ulid, Wait, send

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac

NAME = "signal"


def command(
    ctx: typer.Context,
    ulid: Ulid,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As waits name it.")],
    payload: Annotated[
        str | None,
        typer.Option("--payload", "-p", metavar="JSON", help="JSON, @FILE, or - for stdin."),
    ] = None,
    correlation: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only waits with this correlation take the signal."),
    ] = None,
    sender: Sender = None,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Sends a signal, which the instance keeps until a step waits for it.

    The payload is a JSON object. Signals of one name are taken in the order in which they were
    sent, each by one wait. *Done* means that the instance has taken note of it; the command tells
    when no step waits for it, and `almanac show` lists what is kept. With --wait the command ends
    with 4 when the instance refuses it, and with 5 when it has not got to it in time.

        almanac signal 01JZ8X0V5M6T3C2R9Q4K7W1N8B paid --payload '{"amount": 200}'
        almanac signal 01JZ8X0V5M6T3C2R9Q4K7W1N8B paid -p @payment.json --correlation A-17 --wait 10
    """
    told = read_json(payload)
    send(
        ctx,
        lambda almanac, by: almanac.signal(ulid, name, told, correlation, sender=by),
        sender=sender,
        wait=wait,
        as_json=as_json,
        look=lambda almanac: _look(almanac, ulid, name),
    )


def _look(almanac: "Almanac", ulid: str, name: str) -> dict[str, Any]:
    """Whether a step waits for the name now; what is misspelled is kept for ever."""
    awaited = almanac.awaited_signals(ulid)
    if name in awaited:
        return {"awaited": True}
    others = f"; it waits for {', '.join(awaited)}" if awaited else ""
    return {"awaited": False, "note": f"no step waits for {name} now: it is kept{others}"}
