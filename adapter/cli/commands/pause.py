"""``almanac pause``: has an instance begin nothing further."""

import typer

from adapter.cli.opening import AsJson
from adapter.cli.sending import Reason, Sender, Ulid, Wait, send

NAME = "pause"


def command(
    ctx: typer.Context,
    ulid: Ulid,
    reason: Reason = None,
    sender: Sender = None,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Pauses an instance until it is resumed.

    A step that runs goes on to its end, no other one begins, and nothing falls due; events and
    signals are kept. With --wait the command ends with 4 when the instance refuses it, and with 5
    when it has not got to it in time.

        almanac pause 01JZ8X0V5M6T3C2R9Q4K7W1N8B --reason 'the register is down'
        almanac pause 01JZ8X0V5M6T3C2R9Q4K7W1N8B --sender user:3 --wait 10
    """
    send(
        ctx,
        lambda almanac, by: almanac.pause(ulid, reason, sender=by),
        sender=sender,
        wait=wait,
        as_json=as_json,
    )
